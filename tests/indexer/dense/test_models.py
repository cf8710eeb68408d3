"""Dense models are named by the command or by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.dense.models import name_models
from sparta.errors import InputError
from tests.indexer.tiny_dense import save_dense_model


def test_names_come_from_the_model_or_the_command(dense_model: Path, multi_view: Path) -> None:
    assert name_models([str(dense_model), str(multi_view)]) == {
        "vse++": str(dense_model),
        "mv-vse": str(multi_view),
    }
    assert name_models([f"b={dense_model}", f"a={dense_model}"]) == {
        "b": str(dense_model),
        "a": str(dense_model),
    }
    for wrong, said in [
        ([str(dense_model), str(dense_model)], "are both named 'vse\\+\\+': .* NAME=MODEL"),
        ([f"x={dense_model}", f"x={multi_view}"], "are both named 'x'"),
        ([f"sparta={dense_model}"], "'sparta' cannot be a backend's name"),
        ([f"ensemble={dense_model}"], "'ensemble' cannot be"),
        ([f"a.b={dense_model}"], "'a.b' cannot be"),
        ([f"={dense_model}"], "'' cannot be"),
        (["absent"], "--model absent does not exist: give the folder of a dense model"),
    ]:
        with pytest.raises(InputError, match=said):
            name_models(wrong)


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    folder = save_dense_model(tmp_path / "lr=0.1", "vse-inf")
    assert name_models([str(folder)]) == {"vse-inf": str(folder)}
    assert name_models([f"x={folder}"]) == {"x": str(folder)}

"""`sparta train --init`."""

import sys
from pathlib import Path

import pytest
import yaml
from torch.testing import assert_close
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.visualsparta.model import VisualSparta
from tests.sparta.visualsparta.test_init import oscar_weights, write_oscar
from tests.training.corpus import DIMENSION, Corpus


def test_a_run_starts_from_oscars_weights(corpus: Corpus, tmp_path: Path) -> None:
    width = DIMENSION + 6
    state = oscar_weights(norm=True, width=width)
    oscar = write_oscar(tmp_path / "oscar", state, img_feature_dim=width)
    preset, out = tmp_path / "run.yaml", tmp_path / "run"
    small = corpus.config(
        epochs=1, learning_rate=1e-9, query_learning_rate=None, model={"encoder": {}}
    )
    preset.write_text(yaml.safe_dump(small.model_dump(mode="json")))
    arguments = ["train", str(preset), "--out", str(out), "--init", f"oscar:{oscar}"]
    found = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    model = VisualSparta.from_pretrained(out / "model")
    assert model.config.region_layer_norm
    for key, name in (
        ("img_embedding.weight", "region_projection.weight"),
        ("LayerNorm.bias", "region_norm.bias"),
        ("encoder.layer.1.output.dense.weight", "encoder.encoder.layer.1.output.dense.weight"),
        ("embeddings.word_embeddings.weight", "query_embedding.weight"),
    ):
        assert_close(model.state_dict()[name], state[f"bert.{key}"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("library", ["lightning", "tensorboard"])
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"{library} is not installed.*visualsparta\[train\]"):
        CliRunner().invoke(cli, ["train", "sample", "--out", str(tmp_path)], catch_exceptions=False)

from pathlib import Path

import torch
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.visualsparta.model import VisualSparta
from tests import tiny


def test_shrink_writes_a_compact_model(tmp_path: Path) -> None:
    model = tiny.model(use_labels=False)
    model.trained_terms[:10] = False
    model.save_pretrained(tmp_path / "model")
    out = tmp_path / "small"
    result = CliRunner().invoke(cli, ["shrink", str(tmp_path / "model"), "--out", str(out)])
    assert result.exception is None, result.exception
    assert "15 trained terms" in result.output
    assert torch.equal(VisualSparta.from_pretrained(out).trained_terms, model.trained_terms)
    again = CliRunner().invoke(cli, ["shrink", str(tmp_path / "model"), "--out", str(out)])
    assert isinstance(again.exception, InputError)
    assert "is not empty" in str(again.exception)


def test_only_visualsparta_models_shrink(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    result = CliRunner().invoke(cli, ["shrink", str(tmp_path), "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, InputError)

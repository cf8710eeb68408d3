"""`sparta shrink` and `sparta substitutes`."""

from pathlib import Path

import pytest
import torch
from transformers import BertModel
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.substitutes import SubstituteTable
from sparta.visualsparta import nearest_terms
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


def test_a_model_gets_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_terms, "MINIMUM_SIMILARITY", -1.0)
    model, encoder = tmp_path / "model", tmp_path / "encoder"
    made = tiny.model()
    made.term_frequencies.fill_(3)
    made.trained_terms[tiny.VOCABULARY.index("cat")] = False
    made.save_pretrained(model)
    torch.manual_seed(1)
    BertModel(tiny.encoder()).save_pretrained(encoder)
    tiny.tokenizer().save(encoder)
    tables = []
    for _ in range(2):
        result = CliRunner().invoke(cli, ["substitutes", str(model), "--encoder", str(encoder)])
        assert result.exception is None, result.exception
        assert "substitutes for 1 words" in result.output
        tables.append(SubstituteTable.open(model))
    assert tables[0] == tables[1]
    assert len(tables[0].words["cat"]) == 3


def test_substitutes_need_a_model(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        result = CliRunner().invoke(cli, ["substitutes", str(folder), "--encoder", "e/e"])
        assert isinstance(result.exception, InputError)

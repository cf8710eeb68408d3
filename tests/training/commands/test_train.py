"""`sparta train` from the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from torch.testing import assert_close
from transformers import BertModel
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.visualsparta.model import VisualSparta
from tests import tiny
from tests.fake_hub import HubModel, fake_hub
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


def test_a_run_records_the_commit_and_resumes_with_it(corpus: Corpus, tmp_path: Path) -> None:
    """The hub moves on, or is not reached: the run stays with its commit."""
    bert = BertModel(tiny.encoder(max_position_embeddings=80))
    bert.save_pretrained(tmp_path / "bert")
    tiny.tokenizer().save(tmp_path / "bert")
    preset, out = tmp_path / "run.yaml", tmp_path / "run"
    small = corpus.config(epochs=1, model={"encoder": {}})
    preset.write_text(yaml.safe_dump(small.model_dump(mode="json")))

    def run(address: str, *more: str) -> str:
        arguments = ["train", str(preset), "--out", str(out), "--init", "owner/bert", *more]
        done = subprocess.run(
            [sys.executable, "-m", "sparta", *arguments],
            env=os.environ | {"HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": address},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with fake_hub({"owner/bert": HubModel({"a" * 40: tmp_path / "bert"})}) as address:
        run(address)
    settings = yaml.safe_load((out / "config.yaml").read_text())
    assert settings["model"]["init"] == f"owner/bert@{'a' * 40}"
    with fake_hub({"owner/bert": HubModel({"b" * 40: tmp_path / "bert"})}) as address:
        said = run(address, "--resume", "--set", "epochs=2")
    assert "epochs: 1 → 2" in said and "init" not in said
    assert yaml.safe_load((out / "config.yaml").read_text()) == settings | {"epochs": 2}
    assert "is finished: 2 of 2 epochs" in run(
        "http://127.0.0.1:9", "--resume", "--set", "epochs=2"
    )

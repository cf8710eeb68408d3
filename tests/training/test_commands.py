"""`sparta train` and `sparta eval model RUN` from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.testing import assert_close
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.visualsparta.model import VisualSparta
from tests.eval.data import record, refused
from tests.fake_hub import HubModel, fake_hub
from tests.sparta.visualsparta.test_init import oscar_weights, write_oscar
from tests.sparta.vse.models import save_bert
from tests.training.corpus import DIMENSION, Corpus, dense_config, write_settings
from training.fit import train


def test_a_run_starts_from_oscars_weights(corpus: Corpus, tmp_path: Path) -> None:
    width = DIMENSION + 6
    state = oscar_weights(norm=True, width=width)
    oscar = write_oscar(tmp_path / "oscar", state, img_feature_dim=width)
    still: dict[str, Any] = {
        "learning_rate": 1e-9,
        "query_learning_rate": None,
        "model": {"encoder": {}},
    }
    preset = write_settings(tmp_path / "run.yaml", corpus.config(epochs=1, **still))
    out = tmp_path / "run"
    arguments = ["train", preset, "--out", str(out), "--init", f"oscar:{oscar}"]
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


def test_a_run_records_the_commit_and_resumes_with_it(corpus: Corpus, tmp_path: Path) -> None:
    """The hub moves on, or is not reached: the run stays with its commit."""
    bert = save_bert(tmp_path / "bert", max_position_embeddings=80)
    small = corpus.config(epochs=1, model={"encoder": {}})
    preset, out = write_settings(tmp_path / "run.yaml", small), tmp_path / "run"

    def run(address: str, *more: str) -> str:
        arguments = ["train", preset, "--out", str(out), "--init", "owner/bert", *more]
        done = subprocess.run(
            [sys.executable, "-m", "sparta", *arguments],
            env=os.environ | {"HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": address},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with fake_hub({"owner/bert": HubModel({"a" * 40: bert})}) as address:
        run(address)
    settings = yaml.safe_load((out / "config.yaml").read_text())
    assert settings["model"]["init"] == f"owner/bert@{'a' * 40}"
    with fake_hub({"owner/bert": HubModel({"b" * 40: bert})}) as address:
        said = run(address, "--resume", "--set", "epochs=2")
    assert "epochs: 1 → 2" in said and "init" not in said
    assert yaml.safe_load((out / "config.yaml").read_text()) == settings | {"epochs": 2}
    assert "is finished: 2 of 2 epochs" in run(
        "http://127.0.0.1:9", "--resume", "--set", "epochs=2"
    )


# ---- `sparta eval model RUN`: its own features and held-out photos -------------------------------


@pytest.fixture(scope="module")
def runs(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    train(corpus.config(epochs=1), folder / "sparse")
    train(dense_config(corpus, epochs=1), folder / "dense")
    return folder / "sparse", folder / "dense"


def measured(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = record("eval", "model", *arguments, "--device", "cpu")
    return found


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """What was found, and of which data."""
    other = ("seconds", "items_per_second", "command", "arguments", "date")
    return {key: value for key, value in found.items() if key not in other}


def test_a_run_is_measured_on_what_it_held_out(runs: tuple[Path, Path], corpus: Corpus) -> None:
    for run in runs:
        found = measured(run)
        options = ("--features", corpus.features, "--captions", run / "held-out.jsonl")
        named = measured(run / "model", *options)
        assert figures(found) == figures(named)
        assert found["data"].keys() == {"features", "captions"}
        best = json.loads((run / "result.json").read_text())["recall"]
        ways = ["text_to_image", "image_to_text"][: 1 if run.name == "sparse" else 2]
        recall = [found[way][f"at_{k}"] for way in ways for k in (1, 5, 10)]
        assert sum(recall) / len(recall) == pytest.approx(sum(best.values()), abs=0.2)


def test_several_runs_and_other_photos(
    runs: tuple[Path, Path], corpus: Corpus, tmp_path: Path
) -> None:
    both = measured(*runs)
    assert [one["model"] for one in both["members"]] == [str(run / "model") for run in runs]
    every = measured(runs[0], "--split", "train")
    assert every["images"] == 120 and both["images"] == 30
    reference = ("--reference", "train", "--temperature", "0.5")
    assert measured(runs[0], *reference)["images"] == 30
    some = tmp_path / "some.jsonl"
    some.write_text('{"image": "p000.jpg", "split": "val", "captions": ["a dog"]}\n')
    assert measured(runs[0], "--captions", some)["images"] == 1


def test_captions_may_name_photos_otherwise(corpus: Corpus, tmp_path: Path) -> None:
    """The held-out photos, listed under the ids of the features, are no reference images."""
    bare, run = tmp_path / "bare.jsonl", tmp_path / "run"
    bare.write_text(corpus.captions.read_text().replace(".jpg", ""))
    train(corpus.config(epochs=1, data={"captions": bare}), run)
    found = measured(run, "--reference", "train")
    assert found["images"] == 30 and found["reference"] == {"images": 90, "missing": 0}


def test_what_a_run_does_not_record_is_asked_for(
    runs: tuple[Path, Path], corpus: Corpus, tmp_path: Path
) -> None:
    def refuse(message: str, *arguments: object) -> None:
        refused(message, "eval", "model", *arguments)

    model = runs[0] / "model"
    refuse("--captions: give captioned photos", model, "--features", corpus.features)
    refuse("give the features that", model, "--captions", corpus.captions)
    whole = tmp_path / "whole"
    train(corpus.config(epochs=1, data={"validation_photos": 0}), whole)
    refuse(f"{whole} held out no photos: give --split, or --captions, too", whole)
    other = tmp_path / "other"
    train(corpus.config(epochs=1, seed=1), other)
    refuse("the runs held out different photos", runs[0], other)
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_text("family: vse\n")
    refuse(f"{unfinished} has no model yet: `sparta train … --out {unfinished}", unfinished)

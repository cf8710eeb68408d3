"""`sparta eval model RUN`: a run's own features and held-out photos, and others where given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.eval.data import record, refused
from tests.training.corpus import Corpus, dense_config
from training.fit import train


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
    other = ("seconds", "command", "arguments", "date")
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

"""Several models on several data sets: each row is what `sparta eval model` finds there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.recall.transfer import data_sets
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from tests.eval.data import Data
from tests.indexer.tiny import write_store


@pytest.fixture(scope="module")
def second(
    tmp_path_factory: pytest.TempPathFactory, captioned: list[CaptionedPhoto]
) -> tuple[Path, Path]:
    """Another data set, features and captions: fewer photos, and all of a split "test"."""
    root = tmp_path_factory.mktemp("second")
    lines = [
        {"image": photo.image_id, "split": "test", "captions": photo.captions[::-1]}
        for photo in captioned[:9]
    ]
    captions = root / "captions.jsonl"
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return write_store(root / "features", seed=5).folder, captions


def run(*arguments: object) -> Any:
    given = ["eval", *map(str, arguments), "--device", "cpu"]
    return CliRunner().invoke(cli, given, env={"COLUMNS": "300"})


def test_each_row_is_as_measured_alone(
    data: Data, second: tuple[Path, Path], tmp_path: Path
) -> None:
    views, models, _, captions_file, _ = data
    sets = [(views[0].folder, captions_file, "val"), (*second, "test")]
    options = [
        part
        for features, captions, _ in sets
        for part in ("--features", features, "--captions", captions)
    ]
    out = tmp_path / "transfer.json"
    found = run("transfer", *models, *options, "--split", "val,test", "--out", out)
    assert found.exit_code == 0, (found.output, found.exception)
    rows = json.loads(out.read_text())["rows"]
    expected = [(own, model) for own in sets for model in models]
    assert len(rows) == len(expected) == 4
    for row, ((features, captions, split), model) in zip(rows, expected, strict=True):
        alone = run(
            "model", model, "--features", features, "--captions", captions, "--split", split,
            "--json",
        )  # fmt: skip
        figures = json.loads(alone.stdout)
        for name in ("images", "captions", "text_to_image", "image_to_text", "members"):
            assert row[name] == figures[name], name
        assert (row["data_set"]["captions"], row["data_set"]["split"]) == (str(captions), split)
        assert f"{captions}, {split}" in found.stdout
        at = row["text_to_image"]
        assert f"{at['at_1']:.1f} / {at['at_5']:.1f} / {at['at_10']:.1f}" in found.stdout
    assert rows[0]["images"] != rows[2]["images"]


def test_photos_that_are_missing_are_refused_at_once_or_left_out(
    data: Data, second: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, models, _, captions_file, _ = data
    captions = tmp_path / "more.jsonl"
    gone = {"image": "x.jpg", "split": "test", "captions": ["a dog"]}
    captions.write_text(second[1].read_text() + json.dumps(gone) + "\n")
    arguments = ["transfer", models[0], "--split", "val,test", "--features", views[0].folder]
    arguments += ["--captions", captions_file, "--features", second[0], "--captions"]
    out = tmp_path / "out.json"
    found = run(*arguments, captions, "--allow-missing", "--out", out)
    assert found.exit_code == 0, (found.output, found.exception)
    rows = json.loads(out.read_text())["rows"]
    alone = json.loads(run(*arguments, second[1], "--json").stdout)["rows"]
    assert [row["missing"] for row in rows] == [0, 1]
    assert [row["text_to_image"] for row in rows] == [row["text_to_image"] for row in alone]
    assert rows[1]["protocol"] in " ".join(found.stdout.split())
    monkeypatch.setattr("eval.recall.transfer.measure_model_recall", None)
    refused = run(*arguments, captions)
    assert isinstance(refused.exception, InputError)
    assert f"{second[0]} lacks 1 of the " in str(refused.exception)


def test_other_features_are_refused(data: Data, second: tuple[Path, Path], tmp_path: Path) -> None:
    views, models, _, captions_file, _ = data
    other = write_store(tmp_path / "other", FeatureSource("grid", "resnet", "ffff", 768, 32))
    found = run(
        "transfer", models[0], "--split", "val,test", "--features", views[0].folder,
        "--captions", captions_file, "--features", other.folder, "--captions", second[1],
    )  # fmt: skip
    assert isinstance(found.exception, InputError)
    assert f"{other.folder} has other features than" in str(found.exception)


@pytest.mark.parametrize(
    ("features", "captions", "options", "message"),
    [
        (["a"], ["a"], ("test", "all"), "two data sets or more"),
        (["a"], ["a", "b"], ("test", "all"), "1 --features for 2 --captions"),
        (["a", "b"], ["a", "b"], ("a,b,c", "all"), "--split a,b,c: 3 values for 2"),
        (["a", "b", "c"], ["a", "b", "c"], ("a", "all,all"), "--protocol all,all: 2"),
    ],
)
def test_what_does_not_fit(
    features: list[str], captions: list[str], options: tuple[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        data_sets([Path(path) for path in features], [Path(path) for path in captions], *options)

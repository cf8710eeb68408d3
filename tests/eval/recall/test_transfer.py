"""Several models on several data sets: each row is what `sparta eval model` finds there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eval.recall.model import data_sets
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from tests.eval.data import Data, record, refused, shown, write_captions
from tests.indexer.tiny import write_store


@pytest.fixture(scope="module")
def second(
    tmp_path_factory: pytest.TempPathFactory, captioned: list[CaptionedPhoto]
) -> tuple[Path, Path]:
    """Another data set, features and captions: fewer photos, and all of a split "test"."""
    root = tmp_path_factory.mktemp("second")
    photos = [replace(one, split="test", captions=one.captions[::-1]) for one in captioned[:9]]
    captions = write_captions(root / "captions.jsonl", photos)
    return write_store(root / "features", seed=5).folder, captions


def test_rows_are_as_measured_alone(data: Data, second: tuple[Path, Path], tmp_path: Path) -> None:
    views, models, _, captions_file, _ = data
    sets = [(views[0].folder, captions_file, "val"), (*second, "test")]
    options = [p for store, texts, _ in sets for p in ("--features", store, "--captions", texts)]
    out = tmp_path / "transfer.json"
    command = ["eval", "model", *models, *options, "--split", "val,test", "--out", out]
    text = shown(*command, width=300)
    rows = json.loads(out.read_text())["rows"]
    expected = [(own, model) for own in sets for model in models]
    assert len(rows) == len(expected) == 4
    for row, ((features, captions, split), model) in zip(rows, expected, strict=True):
        given = ["--features", features, "--captions", captions, "--split", split]
        figures = record("eval", "model", model, *given)
        for name in ("images", "captions", "text_to_image", "image_to_text", "members"):
            assert row[name] == figures[name], name
        assert (row["data_set"]["captions"], row["data_set"]["split"]) == (str(captions), split)
        assert f"{captions}, {split}" in text
        at = row["text_to_image"]
        assert f"{at['at_1']:.1f} / {at['at_5']:.1f} / {at['at_10']:.1f}" in text
    assert rows[0]["images"] != rows[2]["images"]


def test_photos_that_are_missing_are_refused_at_once_or_left_out(
    data: Data, second: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, models, _, captions_file, _ = data
    captions = tmp_path / "more.jsonl"
    gone = {"image": "x.jpg", "split": "test", "captions": ["a dog"]}
    captions.write_text(second[1].read_text() + json.dumps(gone) + "\n")
    arguments = ["eval", "model", models[0], "--split", "val,test", "--features"]
    arguments += [views[0].folder, "--captions", captions_file]
    arguments += ["--features", second[0], "--captions"]
    out = tmp_path / "out.json"
    text = shown(*arguments, captions, "--allow-missing", "--out", out, width=300)
    rows = json.loads(out.read_text())["rows"]
    alone = record(*arguments, second[1])["rows"]
    assert [row["missing"] for row in rows] == [0, 1]
    assert [row["text_to_image"] for row in rows] == [row["text_to_image"] for row in alone]
    assert rows[1]["protocol"] in " ".join(text.split())
    monkeypatch.setattr("eval.recall.model.measure_model_recall", None)
    refused(f"{second[0]} lacks 1 of the ", *arguments, captions)
    monkeypatch.undo()
    other = write_store(tmp_path / "other", FeatureSource("grid", "resnet", "ffff", 768, 32))
    arguments[-2] = other.folder
    refused(f"{other.folder} has other features than", *arguments, second[1])


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

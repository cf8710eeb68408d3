"""The models that ship with the package still find what they are recorded to find."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.recall.index import (
    Gallery,
    IndexIds,
    measure_first_hits,
    measure_index_recall,
    read_judged_queries,
)
from indexer.build import build_index
from indexer.engines.open import open_index
from sparta.captions.read import read_captions
from sparta.command_line import cli
from sparta.extract.job import extract_photos
from sparta.features.store import FeatureStore
from sparta.model_id import PHOTOS, SAMPLE
from tests.scenes.corpus import write_queries, write_scenes

# How the photos of the package were drawn, as docs/results/recall.md says.


@pytest.fixture(scope="module")
def record() -> dict[str, float]:
    record: dict[str, float] = json.loads((SAMPLE / "recall.json").read_text())
    return record


def test_the_shipped_models_are_small() -> None:
    sizes = {path.relative_to(SAMPLE): path.stat().st_size for path in SAMPLE.rglob("*.*")}
    assert sum(sizes.values()) <= 5 * 10**6
    assert sum(size for path, size in sizes.items() if path.suffix == ".jpg") < 300_000
    files = {path.name: path.stat().st_size for path in PHOTOS.iterdir()}
    assert files.pop("backbone.safetensors") <= 10 * 10**6 and sum(files.values()) <= 12 * 10**6


def test_sample_model_reaches_its_recorded_recall(tmp_path: Path, record: dict[str, float]) -> None:
    scenes = tmp_path / "scenes"
    write_scenes(scenes, int(record["scenes"]), int(record["seed"]), "test")
    extract_photos(scenes / "images", tmp_path / "features", "pixels", workers=0)
    build_index([FeatureStore.open(tmp_path / "features")], ["sample"], tmp_path / "index")
    searcher = open_index(tmp_path / "index")
    photos = read_captions(scenes / "captions.jsonl", "test")
    found = measure_index_recall(Gallery(searcher, photos)).recall
    write_queries(scenes, int(record["queries"]), int(record["seed"]))
    queries = read_judged_queries(scenes / "queries.jsonl")
    first_hits = measure_first_hits(IndexIds(searcher, tmp_path / "index"), queries)
    searcher.close()
    # Half a point for what another processor or image library rounds otherwise.
    for name in ("at_1", "at_5", "at_10"):
        assert getattr(found, name) >= record[name] - 0.5
    assert first_hits.share >= record["first_hit_right"] - 0.5


# ---- the model for photos ------------------------------------------------------------------------

RECORD = json.loads((PHOTOS / "recall.json").read_text())


def test_its_card_and_licence_name_the_training_photos() -> None:
    for name in ("README.md", "LICENSE"):
        text = (PHOTOS / name).read_text()
        for collection in ("Flickr8k", "COCO", "Flickr30k"):
            assert collection in text
        assert "research" in text


@pytest.mark.parametrize("collection", sorted(RECORD))
def test_recall_by_default_settings(collection: str, tmp_path: Path, shared: Path) -> None:
    record, source = RECORD[collection], shared / collection
    if not source.is_dir():
        pytest.skip(f"real photos are not installed: {source} is absent")
    captions = read_captions(source / "captions.jsonl", record["split"])
    (tmp_path / "photos").mkdir()
    for photo in captions:
        image = source / "images" / photo.image_id
        (tmp_path / "photos" / photo.image_id).symlink_to(image)
    out = tmp_path / "index"
    result = CliRunner().invoke(cli, ["index", str(tmp_path / "photos"), "--out", str(out)])
    assert result.exception is None, result.exception
    searcher = open_index(out)
    found = measure_index_recall(Gallery(searcher, captions)).recall
    searcher.close()
    # Half a point for what another processor or image library rounds otherwise.
    for name in ("at_1", "at_5", "at_10"):
        assert getattr(found, name) >= record[name] - 0.5

"""The models that ship with the package still find what they are recorded to find."""

import json
from pathlib import Path

import numpy as np
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
from indexer.encoding.scorers import ConvertedScorer, TorchScorer, _noise, load_scorers
from indexer.engines.open import open_index
from sparta.captions.read import read_captions
from sparta.command_line import cli
from sparta.extract.job import extract_photos
from sparta.features.store import FeatureStore
from sparta.inference import FOLDER_VARIABLE
from sparta.model_id import PHOTOS, SAMPLE
from sparta.networks.encoder import TUNED
from sparta.networks.lite import LiteBackbone
from sparta.networks.load import ConvertedEncoder, load_encoder
from sparta.visualsparta.model import VisualSparta
from tests.needs import missing
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


@pytest.mark.parametrize(("name", "regions", "size"), [("photos", 26, 1280), ("sample", 50, 768)])
def test_shipped_networks_are_those_of_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, regions: int, size: int
) -> None:
    """As if nothing had been converted before: they come with the package, and compute as torch."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    [shipped], _ = load_scorers([name], "grid", regions, "cpu", "trained")
    assert isinstance(shipped, ConvertedScorer)
    reference = TorchScorer(VisualSparta.from_pretrained(name).eval())
    assert shipped.fingerprint == reference.fingerprint
    images = _noise(5, regions, size)
    terms = np.flatnonzero(shipped.trained_terms)
    ours, theirs = (one.term_scores(images, terms) for one in (shipped, reference))
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-3)
    assert theirs.scores.any() and (ours.positions == theirs.positions).mean() > 0.99
    if name == "photos":
        encoders = load_encoder(TUNED, 260, 0, "cpu"), LiteBackbone(TUNED, 260, "cpu")
        pixels = np.random.default_rng(0).integers(0, 256, (2, 260, 260, 3), np.uint8)
        rows, expected = (one.encode(pixels)[0].astype(np.float64) for one in encoders)
        assert isinstance(encoders[0], ConvertedEncoder)
        np.testing.assert_allclose(rows, expected, atol=0.01 * np.abs(expected).max())
    assert not any(tmp_path.iterdir())


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
        missing(f"real photos: {source} is absent")
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

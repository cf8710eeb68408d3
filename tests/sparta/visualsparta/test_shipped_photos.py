"""The package's model for photos finds what it is recorded to find, with default settings."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.recall.index import Gallery, measure_index_recall
from indexer.engines.open import open_index
from sparta.captions.read import read_captions
from sparta.command_line import cli
from sparta.model_id import PHOTOS
from sparta.word_tables import WordTables

LARGEST = 12 * 10**6  # bytes beside the backbone
BACKBONE = "backbone.safetensors"
RECORD = json.loads((PHOTOS / "recall.json").read_text())


def test_it_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PHOTOS.iterdir()}
    assert sizes.pop(BACKBONE) <= 10 * 10**6
    assert sum(sizes.values()) <= LARGEST


def test_its_card_and_licence_name_the_training_photos() -> None:
    for name in ("README.md", "LICENSE"):
        text = (PHOTOS / name).read_text()
        for collection in ("Flickr8k", "COCO", "Flickr30k"):
            assert collection in text
        assert "research" in text


def test_it_knows_which_words_it_has_rarely_seen() -> None:
    tables = WordTables.open(PHOTOS)
    assert {"dog", "pizza", "giraffe"}.isdisjoint(tables.rare)
    assert len(tables.rare) > 1000
    assert tables.substitutes


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

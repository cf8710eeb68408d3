"""The package's model for photos finds what it is recorded to find, with default settings."""

import json
from pathlib import Path

from typer.testing import CliRunner

from eval.recall.index import measure_index_recall
from indexer.search.open import open_index
from sparta.captions.read import read_captions
from sparta.command_line import cli
from sparta.model_id import PHOTOS

LARGEST_PACKAGE = 12 * 10**6


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in PHOTOS.iterdir()) <= LARGEST_PACKAGE


def test_its_card_and_licence_name_the_training_photos() -> None:
    for name in ("README.md", "LICENSE"):
        text = (PHOTOS / name).read_text()
        assert "Flickr8k" in text
        assert "research" in text


def test_default_settings_reach_the_recorded_recall(tmp_path: Path, shared: Path) -> None:
    record = json.loads((PHOTOS / "recall.json").read_text())
    captions = read_captions(shared / "photos" / "captions.jsonl", record["split"])
    (tmp_path / "photos").mkdir()
    for photo in captions:
        image = shared / "photos" / "images" / photo.image_id
        (tmp_path / "photos" / photo.image_id).symlink_to(image)
    out = tmp_path / "index"
    result = CliRunner().invoke(cli, ["index", str(tmp_path / "photos"), "--out", str(out)])
    assert result.exception is None, result.exception
    searcher = open_index(out)
    found = measure_index_recall(searcher, captions).recall
    searcher.close()
    # Half a point for what another processor or image library rounds otherwise.
    for name in ("at_1", "at_5", "at_10"):
        assert getattr(found, name) >= record[name] - 0.5

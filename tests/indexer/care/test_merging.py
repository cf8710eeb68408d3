"""Several indexes become one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import indexer.care.merging as module
from indexer.care.merging import merge_indexes
from indexer.drift import MEANS
from indexer.fields.store import save_kinds
from indexer.live.changes import Add, Delete
from indexer.manifest import OFFSETS, Manifest
from indexer.parts import UPLOADS
from indexer.postings import Postings
from indexer.search.open import open_index
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import random_postings

Make = Callable[[Path, Postings], Path]


@pytest.fixture
def halves(tokenizer: WordPieceTokenizer, make_index: Make, tmp_path: Path) -> list[Path]:
    """Copies of one index, of which each has deleted what the other has."""
    postings = random_postings(tokenizer, 20)
    first = make_index(tmp_path / "first", postings)
    second = shutil.copytree(first, tmp_path / "second")
    for number, index in enumerate((first, second)):
        with open_writer(index) as writer:
            writer.write([Delete(image_id) for image_id in postings.ids[number::2]])
    return [first, second]


def test_the_images_of_all(
    halves: list[Path],
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    right = LiveReference(random_postings(tokenizer, 20))
    added = Add(replace(next(iter(random_postings(tokenizer, 1, seed=1))), image_id="new"))
    with open_writer(halves[1]) as writer:
        writer.write([added])
    right.apply([added])
    change(halves[0], mean_error=0.25)
    (halves[1] / UPLOADS / "ab").mkdir(parents=True)
    (halves[1] / UPLOADS / "ab" / "abc.jpg").write_text("photo")
    out = tmp_path / "all"
    manifest = merge_indexes(halves, out)
    assert (manifest.images, manifest.live, manifest.mean_error) == (21, False, 0.25)
    for engine in ("columns", "lucene"):
        assert_same(open_index(out, engine), right.searcher(tokenizer))
    assert verify_index(out) == []
    assert (out / UPLOADS / "ab" / "abc.jpg").read_text() == "photo"
    np.testing.assert_array_equal(np.load(out / MEANS), np.load(halves[0] / MEANS))
    with open_writer(out) as writer:
        writer.write([Delete("new")])
    right.apply([Delete("new")])
    assert_same(open_index(out), right.searcher(tokenizer))


def change(index: Path, **fields: Any) -> None:
    manifest = Manifest.read(index)
    replace(manifest, **fields).save(index)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"scale": 0.25}, "its scale is 0.25 instead of 0.5"),
        ({"models": ["0123456789abcdef", "n"]}, "its models is 0123456789ab, n instead of m"),
        ({"features": ["f", "g"]}, "it has 2 augmentations of each photo instead of 1"),
    ],
)
def test_images_that_were_encoded_otherwise(
    halves: list[Path], tmp_path: Path, fields: dict[str, Any], problem: str
) -> None:
    change(halves[1], **fields)
    with pytest.raises(InputError, match=rf"second cannot be merged with .*first: {problem}"):
        merge_indexes(halves, tmp_path / "all")


def test_other_offsets(halves: list[Path], tmp_path: Path) -> None:
    offsets = np.load(halves[1] / OFFSETS)
    np.save(halves[1] / OFFSETS, offsets + 1)
    with pytest.raises(InputError, match="its offsets are those of other photos; build one"):
        merge_indexes(halves, tmp_path / "all")


def test_what_is_not_merged(halves: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all"
    with pytest.raises(InputError, match="give at least two indexes to merge"):
        merge_indexes(halves[:1], out)
    with pytest.raises(InputError, match=r"'a/00001 é.jpg' is in .*first and in .*first: delete"):
        merge_indexes([halves[0], halves[0]], out)
    with pytest.raises(InputError, match="second exists: give a new folder"):
        merge_indexes(halves, halves[1])
    change(halves[1], photos="/photos")
    save_kinds(halves[0], {"width": "number", "code": "keyword"})
    save_kinds(halves[1], {"width": "number"})
    found = merge_indexes(halves, out)
    assert found.photos is None
    assert json.loads((out / "fields.json").read_text()) == {"width": "number", "code": "keyword"}
    save_kinds(halves[1], {"width": "keyword"})
    with pytest.raises(InputError, match="declares the field 'width' as keyword, another index as"):
        merge_indexes(halves, tmp_path / "other")
    (halves[1] / "dense" / "vse").mkdir(parents=True)
    (halves[1] / "dense" / "vse" / "manifest.json").touch()
    with pytest.raises(InputError, match=r"second has dense parts \(vse\), which do not merge"):
        merge_indexes(halves, tmp_path / "other")

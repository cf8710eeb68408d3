"""Dividing an index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.drift import MEANS
from indexer.live.changes import Delete
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import OFFSETS, Manifest
from indexer.parts import LUCENE
from indexer.postings import Postings
from indexer.shards import index_folders, owner
from indexer.split import split_index
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import random_postings


def test_shards_have_the_settings_of_the_whole(tmp_path: Path, index: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    split_index(index, tmp_path / "out", 2, lambda *step: steps.append(step))
    whole, ids = Manifest.open(index), list[str]()
    for number, folder in enumerate(index_folders(tmp_path / "out")):
        manifest = Manifest.open(folder)
        for field in ("scale", "bits", "vocabulary", "models", "features", "offset", "photos"):
            assert getattr(manifest, field) == getattr(whole, field)
        for name in (OFFSETS, MEANS):
            assert np.array_equal(np.load(folder / name), np.load(index / name))
        with closing(LuceneIndex(folder / LUCENE)) as lucene:
            own = [lucene.stored(document).image_id for document in range(len(lucene))]
        assert all(owner(image_id, 2) == number for image_id in own)
        assert own == sorted(own)
        ids += own
    assert len(ids) == len(set(ids)) == whole.images
    assert [done for _, done, _ in steps][-1] == 300
    assert verify_index(tmp_path / "out") == []


def test_images_in_the_wrong_shard_are_found(tmp_path: Path, index: Path) -> None:
    out = tmp_path / "out"
    split_index(index, out, 2)
    (out / "shard-000").rename(tmp_path / "first")
    (out / "shard-001").rename(out / "shard-000")
    (tmp_path / "first").rename(out / "shard-001")
    first, second = verify_index(out)
    assert first.startswith(f"{out / 'shard-000'} has ")
    assert "of other shards, such as a/00" in second
    (out / "shard-001" / "manifest.json").unlink()
    assert "is not an index" in verify_index(out)[1]


def test_what_cannot_be_divided_is_refused(
    tmp_path: Path,
    make_index: Callable[[Path, Postings], Path],
    tokenizer: WordPieceTokenizer,
) -> None:
    few = random_postings(tokenizer, 4)
    index = make_index(tmp_path / "index", few)
    with pytest.raises(InputError, match=r"^--shards 9: of 4 images none is in shard \d; make"):
        split_index(index, tmp_path / "out", 9)
    with open_writer(index) as writer:
        writer.write([Delete(few.ids[0])])
    with pytest.raises(InputError, match=rf"^{index} was written to since it was built"):
        split_index(index, tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()

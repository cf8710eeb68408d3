"""Sums of impacts against those of the postings, whatever was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import indexer.update.writer
from indexer.care.info import TermSums, term_sums
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState
from indexer.drift import MEANS
from indexer.live.changes import Add, Change, Delete
from indexer.live.history import read_changes
from indexer.postings import ImagePostings, Postings
from indexer.update.writer import open_writer
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import LiveReference
from tests.indexer.random_postings import random_postings


def right(images: list[ImagePostings], vocabulary: int) -> TermSums:
    sums = TermSums(*np.zeros((2, vocabulary), np.int64))
    for image in images:
        sums.impacts[image.terms] += image.impacts
        sums.images[image.terms] += 1
    return sums


@pytest.mark.parametrize("compact_at", [4096, 3])
def test_sums(
    tokenizer: WordPieceTokenizer,
    make_index: Callable[[Path, Postings], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compact_at: int,
) -> None:
    monkeypatch.setattr(indexer.update.writer, "COMPACT_AT", compact_at)
    postings, vocabulary = random_postings(tokenizer, 300), len(tokenizer.vocabulary)
    index, reference = make_index(tmp_path / "index", postings), LiveReference(postings)
    built = right(list(postings), vocabulary)
    np.testing.assert_allclose(np.load(index / MEANS), built.impacts / 300, rtol=1e-6)
    others = list(random_postings(tokenizer, 8, seed=1))
    groups: list[list[Change]] = [
        [Delete(postings.ids[5]), Delete(postings.ids[290])],
        [Add(others[0]), Add(replace(others[1], image_id="new")), Add(others[3])],
        [Add(replace(others[4], image_id="newer")), Delete("new"), Delete(others[3].image_id)],
    ]
    for group in groups:
        with open_writer(index) as writer:
            writer.write(group)
            commit = writer.commit()
        reference.apply(group)
        columns = LiveColumns.open(index, commit.columns, vocabulary, 8)
        first = ColumnState.open(index, commit.columns).log
        columns = columns.after(read_changes(index, first, 0, commit))
        found, wanted = term_sums(columns), right(list(reference.images.values()), vocabulary)
        np.testing.assert_array_equal(found.impacts, wanted.impacts)
        np.testing.assert_array_equal(found.images, wanted.images)

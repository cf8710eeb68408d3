"""A cap on what is visited: its size, and what a search finds below it."""

from __future__ import annotations

from math import ceil, nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns import visited as module
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import SUPERBLOCK
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.row_files import PostingRows
from indexer.columns.visited import LEADERS, check_visited, most_visited
from sparta.errors import InputError
from tests.indexer.columns.corpus import (
    VOCABULARY,
    built,
    exact_top,
    random_rows,
    top,
    visited_documents,
)
from tests.indexer.columns.live import images as live
from tests.indexer.columns.live.images import add, build, compact, expected, found

IMAGES = 20_000

Corpus = tuple[PostingRows, ColumnIndex]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    rows = random_rows(IMAGES, 8, seed=1)
    return rows, built(tmp_path_factory.mktemp("visited") / "columns", rows, 8)


@pytest.mark.parametrize("share", [0, -0.1, 1.1, nan])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=rf"^--visited must be above 0 and at most 1, got {share}"):
        check_visited(share)


def test_a_share_of_each_segment_but_the_leaders_of_all() -> None:
    for share in (1.0, 0.5, 1e-9):
        check_visited(share)
    assert most_visited([3907, 10], 1).tolist() == []
    assert most_visited([3907, 100, 10], 0.5).tolist() == [1954, 50, LEADERS]
    assert most_visited([3907], 1e-9).tolist() == [LEADERS]


@settings(max_examples=200)
@given(data=st.data())
def test_the_best_of_what_is_visited_is_found(corpus: Corpus, data: st.DataObject) -> None:
    rows, index = corpus
    term = st.integers(0, VOCABULARY - 1)
    terms = data.draw(st.dictionaries(term, st.integers(1, 4), max_size=12), label="terms")
    share = data.draw(st.floats(1e-9, 1) | st.sampled_from([0.01, 0.41, 0.5, 1.0]), label="share")
    k = data.draw(st.integers(1, 40), label="k")
    most = max(LEADERS, ceil(share * ceil(IMAGES / SUPERBLOCK)))
    documents = visited_documents(rows, index.columns.order, terms, most)
    answer = top(ColumnIndex(index.columns, share), terms, k)
    assert answer == exact_top(rows, terms, k, documents)
    assert bool(answer) == bool(exact_top(rows, terms, 1))


def test_segments_of_an_index_that_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each segment has a superblock of large impacts, which the order keeps together."""
    monkeypatch.setattr(module, "LEADERS", 1)
    impacts = {f"{number:03}": {3: 200, 4: 1} for number in range(SUPERBLOCK)}
    impacts |= {f"{number:03}": {3: 1, 5: 1} for number in range(SUPERBLOCK, 2 * SUPERBLOCK)}
    images: live.Images = {key: ({}, own) for key, own in impacts.items()}
    build(tmp_path, images, 8)
    more = {f"{key}b": own for key, own in impacts.items()}
    compact(tmp_path, 0, [add(key, own) for key, own in more.items()], 1)
    images |= {key: ({}, own) for key, own in more.items()} | {"new": ({}, {3: 2})}
    every, some = (
        LiveColumns.open(tmp_path, 1, live.VOCABULARY, 8, None, share).after([add("new", {3: 2})])
        for share in (1.0, 0.5)
    )
    assert found(every, {3: 1}, 2000) == expected(images, {3: 1}, 2000)
    visited = {key: one for key, one in images.items() if one[1][3] > 1}
    assert len(visited) == 2 * SUPERBLOCK + 1
    assert found(some, {3: 1}, 2000) == expected(visited, {3: 1}, 2000)

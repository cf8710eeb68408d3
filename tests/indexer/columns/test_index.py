"""The column index against exact scores."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns.index import ColumnIndex
from indexer.columns.layout import BLOCK, SUPERBLOCK
from indexer.columns.row_files import PostingRows
from tests.indexer.columns.corpus import VOCABULARY, built, exact_top, random_rows, top

# Images and bits: ends of blocks and superblocks, and enough of these that some are passed over.
SHAPES = [
    (1, 8),
    (BLOCK - 1, 10),
    (SUPERBLOCK, 4),
    (SUPERBLOCK + BLOCK + 1, 12),
    (9000, 6),
    (33_000, 8),
    (9000, 9),
    (20_000, 12),
    (700, 16),
]
Corpus = tuple[PostingRows, ColumnIndex]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    folder = tmp_path_factory.mktemp("columns")
    made = []
    for number, (images, bits) in enumerate(SHAPES):
        rows = random_rows(images, bits, seed=number)
        made.append((rows, built(folder / str(number), rows, bits)))
    return made


def test_the_corpora_have_dense_columns_and_lists(corpora: list[Corpus]) -> None:
    large = [index.columns for rows, index in corpora if len(index) > SUPERBLOCK]
    assert large
    assert all(columns.dense and len(columns.postings) for columns in large)
    assert any(columns.anchors.shape[1] > 1 for columns in large)
    assert {columns.impacts.dtype for columns in large} == {np.dtype("u1"), np.dtype("u2")}


@settings(max_examples=400)
@given(data=st.data())
def test_answers_are_exact_and_in_order(corpora: list[Corpus], data: st.DataObject) -> None:
    rows, index = data.draw(st.sampled_from(corpora), label="corpus")
    term = st.integers(0, VOCABULARY - 1)
    terms = data.draw(st.dictionaries(term, st.integers(1, 4), max_size=20), label="terms")
    k = data.draw(st.sampled_from([1, 2, 10, 100, 1000]) | st.integers(1, 1000), label="k")
    share = data.draw(st.sampled_from([None, 0.0, 0.01, 0.5, 1.0]), label="share allowed")
    allowed = None
    if share is not None:
        allowed = np.random.default_rng(k).random(len(index)) < share
    assert top(index, terms, k, allowed) == exact_top(rows, terms, k, allowed)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    images=st.integers(1, 1200),
    bits=st.integers(4, 12),
    words=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=15),
    k=st.integers(1, 1000),
)
def test_any_corpus_is_answered_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    images: int,
    bits: int,
    words: list[int],
    k: int,
) -> None:
    rows = random_rows(images, bits, seed)
    index = built(tmp_path_factory.mktemp("any") / "columns", rows, bits)
    terms = Counter(words)
    assert top(index, terms, k) == exact_top(rows, terms, k)


@pytest.mark.parametrize("count", [1, 200, 300, 30_000])
def test_long_queries_do_not_overflow(corpora: list[Corpus], count: int) -> None:
    for rows, index in corpora:
        terms = dict.fromkeys(range(VOCABULARY), count)
        bound = sum(count * int(row.max()) for row in index.columns.maxima)
        if bound >= 2**31:
            with pytest.raises(ValueError, match="too long"):
                index.top(terms, 10)
        else:
            assert top(index, terms, 10) == exact_top(rows, terms, 10)


def test_threads_may_ask_at_once(corpora: list[Corpus]) -> None:
    rows, index = corpora[4]
    queries = [{i % VOCABULARY: 1, (7 * i) % VOCABULARY: 2} for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda terms: top(index, terms, 10), queries))
    assert found == [exact_top(rows, terms, 10) for terms in queries]


def test_no_hits_are_asked_for(corpora: list[Corpus]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        corpora[0][1].top({0: 1}, 0)


def test_an_index_of_images_without_terms(tmp_path: Path) -> None:
    empty = PostingRows(np.zeros(4, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    index = built(tmp_path / "columns", empty, 8)
    assert len(index) == 3
    assert top(index, {0: 1, 5: 2}, 10) == []

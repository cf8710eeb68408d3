"""The kernel: the exact best k of the documents that reach a floor, in superblocks it visits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns.index import ColumnIndex
from indexer.columns.kernel import best_documents
from indexer.columns.row_files import PostingRows
from tests.indexer.columns.corpus import (
    VOCABULARY,
    built,
    exact_top,
    random_rows,
    visited_documents,
)

Corpus = tuple[PostingRows, ColumnIndex]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    folder = tmp_path_factory.mktemp("kernel")
    made = []
    for images, bits in ((40, 8), (3000, 8), (9000, 12)):
        rows = random_rows(images, bits, seed=images)
        made.append((rows, built(folder / str(images), rows, bits)))
    return made


@settings(max_examples=200)
@given(data=st.data())
def test_what_is_below_the_floor_is_not_found(corpora: list[Corpus], data: st.DataObject) -> None:
    rows, index = data.draw(st.sampled_from(corpora), label="corpus")
    terms = data.draw(
        st.dictionaries(st.integers(0, VOCABULARY - 1), st.integers(1, 4), max_size=12),
        label="terms",
    )
    k = data.draw(st.integers(1, 40), label="k")
    superblocks = index.columns.maxima.shape[1]
    most = data.draw(st.integers(1, superblocks), label="superblocks visited")
    right = exact_top(rows, terms, k, visited_documents(rows, index.columns.order, terms, most))
    scores = [score for _, score in right] or [1]
    nearby = st.sampled_from(scores).flatmap(lambda score: st.integers(score - 1, score + 1))
    floor = data.draw(nearby | st.integers(0, 2**31 - 1), label="floor")
    pairs = sorted((int(index.columns.row_of[term]), count) for term, count in terms.items())
    pairs = [pair for pair in pairs if pair[0] >= 0]
    documents, found = best_documents(
        index.columns,
        np.array([row for row, _ in pairs], np.int64),
        np.array([count for _, count in pairs], np.uint32),
        np.empty(0, np.bool_),
        np.empty(0, np.bool_),
        most,
        min(k, len(index)),
        floor,
    )
    assert list(zip(documents.tolist(), found.tolist(), strict=True)) == [
        (document, score) for document, score in right if score >= floor
    ]

"""A Lucene index of several segments with deleted documents, searched among some of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.lucene.reader import LuceneIndex
from tests.indexer.bitmaps import bitmaps
from tests.indexer.lucene.conftest import DELETED
from tests.indexer.vocabulary import COMMON, WORDS
from tests.reference.searcher import ReferenceSearcher


def test_documents_that_were_deleted_are_not_live(segments: LuceneIndex, index: Path) -> None:
    assert segments.live is not None
    assert np.flatnonzero(~segments.live).tolist() == DELETED
    assert (len(segments), segments.documents) == (294, 300)
    whole = LuceneIndex(index / "lucene")
    assert whole.live is None
    whole.close()


@pytest.mark.parametrize("few", [0, 1000])
@settings(max_examples=60)
@given(
    words=st.lists(st.sampled_from([*WORDS, COMMON]), min_size=1, max_size=12),
    k=st.integers(1, 320),
    allowed=bitmaps(300),
)
def test_deleted_documents_are_never_found(
    segments: LuceneIndex,
    exact: ReferenceSearcher,
    few: int,
    words: list[str],
    k: int,
    allowed: NDArray[np.bool_] | None,
) -> None:
    assert segments.live is not None
    both = segments.live if allowed is None else allowed & segments.live
    counts = {word: words.count(word) for word in words}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.lucene.reader.FEW", few)
        found = segments.top(" ".join(words), k, allowed)
    assert found == exact.top(counts, k, both)

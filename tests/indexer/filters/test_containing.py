"""The search for a piece of text in C and in numba."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.columns import native
from indexer.filters import in_numba
from indexer.filters.containing import _CLASSES

WORDS = st.lists(st.text("ab1_ /é犬", max_size=8), max_size=8)


def arrays_of(words: list[str], piece: str) -> list[np.ndarray]:
    texts = [word.encode() for word in words]
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    pieces = np.frombuffer(b"".join(texts), np.uint8), np.frombuffer(piece.encode(), np.uint8)
    return [pieces[0], starts, pieces[1], _CLASSES]


@given(words=WORDS, piece=st.text("ab1é犬", min_size=1, max_size=3))
def test_both_find_the_same(words: list[str], piece: str) -> None:
    found = []
    for one in (in_numba, native):
        found.append(np.zeros(len(words), np.uint8))
        one.find_piece(*arrays_of(words, piece), found[-1])
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize("starts", [[0, 9], [-1, 1], [1, 0], [0]])
def test_words_beyond_the_texts_are_refused(starts: list[int]) -> None:
    texts, _, piece, classes = arrays_of(["ab"], "a")
    with pytest.raises(ValueError, match=r"not within the texts|too short"):
        native.find_piece(texts, np.array(starts, np.int32), piece, classes, np.zeros(1, np.uint8))

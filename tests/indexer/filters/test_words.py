"""The search for a piece of text in many words: in C, and without it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.columns import native
from indexer.filters import words as module
from indexer.filters.words import matching

WORDS = st.lists(st.text("ab1_ /é犬", max_size=8), max_size=8)
CLASSES = np.zeros(256, np.uint8)


@given(words=WORDS, wanted=st.text("ab1é犬 ", min_size=1, max_size=4))
def test_both_find_the_same(words: list[str], wanted: str) -> None:
    folded = pa.array(words, pa.string())
    found = [matching(folded, wanted, "text").tolist()]
    for change in ({"MANY": 0}, {"MANY": 0, "find_piece": None}):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in change.items():
                patch.setattr(module, name, value)
            found.append(matching(folded, wanted, "text").tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("starts", [[0, 9], [-1, 1], [1, 0], [0]])
def test_words_beyond_the_texts_are_refused(starts: list[int]) -> None:
    text = np.frombuffer(b"ab", np.uint8)
    places, found = np.array(starts, np.int32), np.zeros(1, np.uint8)
    with pytest.raises(ValueError, match=r"not within the texts|too short"):
        native.find_piece(text, places, text[:1], CLASSES, found)

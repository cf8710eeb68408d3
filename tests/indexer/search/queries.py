"""What the tests of all engines ask, and what they compare."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.search.answer import Answer
from tests.indexer.vocabulary import COMMON, RARE, WORDS

VOCABULARY = [*WORDS, COMMON, RARE, "dogs", "running", "sunny", "qqq", "[MASK]"]


def answer(result: Answer) -> list[tuple[int, str, float]]:
    return [(hit.rank, hit.image_id, hit.score) for hit in result.hits]


def bitmaps(images: int) -> st.SearchStrategy[NDArray[np.bool_] | None]:
    """[images] bool of any share, from none over one to all; or None, which stands for all."""
    shares = st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
    drawn = st.builds(
        lambda seed, share: np.random.default_rng(seed).random(images) < share,
        st.integers(0, 2**32 - 1),
        shares,
    )
    one = st.integers(0, images - 1).map(lambda image: np.arange(images) == image)
    return st.none() | one | drawn

"""Changes drawn at random, and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from indexer.postings import ImagePostings, Inputs
from indexer.store.changes import Add, Change, Delete, MetadataChange

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
METADATA = st.dictionaries(IDS, st.integers() | st.text("aé犬") | st.lists(st.booleans()))


@st.composite
def images(draw: st.DrawFn) -> ImagePostings:
    """An image with any numbers that postings may have."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, r, k = (draw(st.integers(0, 5)) for _ in range(3))
    return ImagePostings(
        draw(IDS),
        draw(METADATA),
        np.unique(rng.integers(0, 2**31 - 1, n).astype(np.int32)),
        rng.integers(1, 2**16, n).astype(np.int32),
        rng.integers(-1, 2**15, n).astype(np.int16),
        Inputs(
            rng.random((r, 4)).astype(np.float32),
            rng.integers(0, 2**31 - 1, k).astype(np.int32),
            rng.integers(0, 2**15, k).astype(np.int16),
        ),
    )


CHANGES = (
    st.builds(Add, images()) | st.builds(MetadataChange, IDS, METADATA) | st.builds(Delete, IDS)
)


def plain(change: Change) -> Any:
    """A change with its arrays as bytes, which compare."""
    if not isinstance(change, Add):
        return change
    image = change.image
    arrays = [image.terms, image.impacts, image.positions, *vars(image.inputs).values()]
    return (
        image.image_id,
        image.metadata,
        [(part.dtype, part.shape, part.tobytes()) for part in arrays],
    )

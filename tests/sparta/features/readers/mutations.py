"""Files whose bytes have changed, and what must come of reading them."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.features.readers.base import FeatureReader
from sparta.features.record import ImageFeatures

PIECES = st.binary(max_size=6) | st.sampled_from(
    [b"\t", b"\n", b"\0", b"0", b"-1", b"9" * 5000, b"nan", b"b'", b"=", b"\xff", b"AADAfw=="]
)


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """A file cut, or with up to three pieces of it taken out, replaced or put in."""
    if draw(st.integers(0, 4)) == 0:
        return content[: draw(st.integers(0, len(content)))]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 8) | st.integers(0, len(content))))
        content = content[:start] + draw(PIECES) + content[end:]
    return content


@st.composite
def mutated_cells(draw: st.DrawFn, content: bytes) -> bytes:
    """A TSV with one of its cells replaced, by a piece or by another of its cells."""
    lines = [line.split(b"\t") for line in content.splitlines()]
    cells = draw(st.sampled_from(lines))
    others = st.sampled_from([cell for line in lines for cell in line])
    cells[draw(st.integers(0, len(cells) - 1))] = draw(PIECES | others)
    return b"".join(b"\t".join(cells) + b"\n" for cells in lines)


def read_all(open_reader: Callable[[], FeatureReader]) -> list[ImageFeatures]:
    """The images that can be read; each must be valid, and nothing but InputError be raised."""
    try:
        reader = open_reader()
    except InputError:
        return []
    images = []
    for row, image_id in enumerate(reader.ids):
        try:
            image = reader[row]
        except InputError:
            continue
        assert image.image_id == image_id
        assert image_id.encode()  # a store holds UTF-8
        assert image.features.dtype == np.float16
        assert image.features.shape[1] == reader.source.dimension
        assert len(image.features)
        assert np.isfinite(image.features).all()
        assert image.features.any(axis=1).all()
        assert (image.boxes[:, :2] <= image.boxes[:, 2:]).all()
        assert 0 <= image.width < 2**31
        assert 0 <= image.height < 2**31
        images.append(image)
    assert reader.ids == sorted(reader.ids)
    assert len({image.image_id for image in images}) == len(images)
    return images

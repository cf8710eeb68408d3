import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparta.errors import InputError
from sparta.features.readers.parsing.validation import relative_boxes


@given(
    st.tuples(st.integers(1, 4000), st.integers(1, 4000)),
    st.lists(st.tuples(*[st.floats(0, 1, width=16)] * 4), min_size=1, max_size=5),
)
def test_boxes_become_relative(size: tuple[int, int], corners: list[tuple[float, ...]]) -> None:
    width, height = size
    pixels = [
        (
            min(x, u) * width,
            min(y, v) * height,
            max(x, u) * width,
            max(y, v) * height,
        )
        for x, y, u, v in corners
    ]
    assume(max(map(max, pixels)) > 1.02)  # else they are taken for relative ones
    found = relative_boxes(np.array(pixels, np.float32), width, height, "f")
    assert found.dtype == np.float32
    for box, (x1, y1, x2, y2) in zip(found.tolist(), pixels, strict=True):
        assert box == pytest.approx((x1 / width, y1 / height, x2 / width, y2 / height), abs=1e-6)


def test_a_box_that_ends_just_outside_is_cut() -> None:
    boxes = np.array([[-0.5, 0, 200.9, 100.9]], np.float32)
    assert relative_boxes(boxes, 200, 100, "f").tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        ([0, 0, 210, 50], "0, 0, 210, 50: it is not within the photo's 200 x 100"),
        ([0, 0, 50, 150], "not within"),  # width and height exchanged
        ([-10, 0, 50, 50], "not within"),
        ([0, 0, np.nan, 50], "not within"),
        ([0, 0, np.inf, 50], "not within"),
        ([60, 0, 50, 50], "x1 > x2 or y1 > y2"),
        ([0, 60, 50, 50], "x1 > x2 or y1 > y2"),
    ],
)
def test_an_odd_box_is_named(box: list[float], reason: str) -> None:
    boxes = np.array([[0, 0, 200, 100], box], np.float32)
    message = "^f: boxes, row 2: expected x1, y1, x2, y2 in pixels, found .*" + re.escape(reason)
    with pytest.raises(InputError, match=message):
        relative_boxes(boxes, 200, 100, "f: boxes")


@pytest.mark.parametrize("boxes", [[[0.25, 0.5, 1, 1]], [[0, 0, 1, 1], [0.5, 0.5, 0.75, 0.75]]])
def test_relative_boxes_are_refused_where_pixels_belong(boxes: list[list[float]]) -> None:
    with pytest.raises(InputError, match=r"f: boxes: .* these boxes are relative .* 200 x 100$"):
        relative_boxes(np.array(boxes), 200, 100, "f: boxes")
    one_pixel, zeros = np.array([[0, 0, 1, 1]]), np.zeros((1, 4))
    assert relative_boxes(one_pixel, 2, 2, "f").tolist() == [[0, 0, 0.5, 0.5]]
    assert relative_boxes(zeros, 200, 100, "f").tolist() == [[0, 0, 0, 0]]

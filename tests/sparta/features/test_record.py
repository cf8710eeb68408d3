import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparta.features.record import ImageFeatures
from tests import tiny


def test_locations_are_in_oscars_order() -> None:
    """x1/W, y1/H, x2/W, y2/H, w/W, h/H, computed here from pixels."""
    width, height = 640, 480
    pixels = [(64, 48, 320, 96), (0, 0, 640, 480), (100, 200, 100, 300)]
    boxes = [(x1 / width, y1 / height, x2 / width, y2 / height) for x1, y1, x2, y2 in pixels]
    image = ImageFeatures(
        "a.jpg",
        np.zeros((3, 2), np.float16),
        np.array(boxes, np.float32),
        ("",) * 3,
        ("",) * 3,
        width,
        height,
    )
    assert image.locations.dtype == np.float32
    for found, (x1, y1, x2, y2) in zip(image.locations, pixels, strict=True):
        expected = [x1 / 640, y1 / 480, x2 / 640, y2 / 480, (x2 - x1) / 640, (y2 - y1) / 480]
        assert found.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ("dog",)},
        {"attributes": ("",) * 4},
        {"boxes": np.zeros((2, 4), np.float32)},
        {"boxes": np.zeros((3, 5), np.float32)},
        {"features": np.zeros(3, np.float16)},
    ],
)
def test_parts_must_agree(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"0-3\.jpg: features .* expected \[n, d\]"):
        replace(tiny.image(3), **change)


@pytest.mark.parametrize("value", [-0.01, 1.01, 320, math.nan])
def test_boxes_must_be_relative(value: float) -> None:
    boxes = tiny.image(3).boxes.copy()
    boxes[1, 2] = value
    with pytest.raises(ValueError, match=r"0-3\.jpg: boxes must be relative"):
        replace(tiny.image(3), boxes=boxes)


def test_an_image_may_have_no_region() -> None:
    assert tiny.image(0).locations.shape == (0, 6)


def test_some_of_the_regions_keep_what_belongs_to_them() -> None:
    labels, attributes = ("dog", "cat", ""), ("", "grey", "red")
    image = replace(tiny.image(3), labels=labels, attributes=attributes)
    taken = image.take(np.array([2, 0]))
    assert taken.features.tolist() == [image.features[2].tolist(), image.features[0].tolist()]
    assert taken.boxes.tolist() == [image.boxes[2].tolist(), image.boxes[0].tolist()]
    assert (taken.labels, taken.attributes) == (("", "dog"), ("red", ""))
    assert (taken.image_id, taken.width) == (image.image_id, image.width)


def test_sources_differ_by_what_changes_features_alone() -> None:
    source = tiny.source()
    assert source.differences(replace(source, backbone="elsewhere/detector")) == []
    other = replace(source, weights="def", image_size=128)
    assert source.differences(other) == [
        "weights: 'abc' against 'def'",
        "image_size: 64 against 128",
    ]

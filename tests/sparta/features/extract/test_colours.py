import colorsys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sparta.features.extract.detector import NAMES, box_colours, name_pixels
from tests.sparta.features.readers.real_regions import read_real_regions

BOXES = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.95, 0.95, 1, 1], [1, 1, 1, 1]])


def slow_name(red: int, green: int, blue: int) -> str:
    """One pixel, rule by rule."""
    turn, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    hue = turn * 360
    if value < 0.2:
        return "black"
    if saturation < 0.18:
        return "white" if value >= 0.75 else "grey"
    ends = {"red": 15, "orange": 40, "yellow": 70, "green": 165, "blue": 255, "purple": 290}
    ends |= {"pink": 345}
    name = next((name for name, end in ends.items() if hue < end), "red")
    if name in ("red", "pink") and saturation < 0.5 and value >= 0.7:
        return "pink"
    if hue < 50 and (value < 0.65 or saturation < 0.5):
        return "brown"
    return name


def slow_colour(pixels: np.ndarray, box: np.ndarray) -> str:
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = box * [width, height, width, height]
    left, right = (x1 + x2) / 2 - (x2 - x1) / 4, (x1 + x2) / 2 + (x2 - x1) / 4
    top, bottom = (y1 + y2) / 2 - (y2 - y1) / 4, (y1 + y2) / 2 + (y2 - y1) / 4
    rows = [y for y in range(height) if y < bottom and y + 1 > top]
    columns = [x for x in range(width) if x < right and x + 1 > left]
    names = Counter(
        slow_name(*pixels[y, x].tolist())
        for y in rows or [min(int(top), height - 1)]
        for x in columns or [min(int(left), width - 1)]
    )
    name = max(names, key=lambda name: (names[name], -NAMES.index(name)))
    return name if names[name] >= 0.35 * names.total() else ""


def test_every_pixel_is_named_as_one_by_one() -> None:
    levels = [0, 30, 50, 51, 90, 127, 166, 178, 179, 191, 192, 230, 255]
    pixels = np.array([[r, g, b] for r in levels for g in levels for b in levels], np.uint8)
    found = [NAMES[name] for name in name_pixels(pixels)]
    assert set(found) == set(NAMES)
    right = [slow_name(*pixel) for pixel in pixels.tolist()]
    # Hues that lie on a border may round to either side of it.
    assert sum(one != other for one, other in zip(found, right, strict=True)) <= 3


@pytest.mark.parametrize("seed", range(4))
def test_boxes_as_pixel_by_pixel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (12, 10, 3)).astype(np.uint8)
    picture[rng.random((12, 10)) < 0.3] = (30, 60, 200)
    corners = np.sort(rng.random((20, 2, 2)), axis=1).reshape(20, 4)
    boxes = np.concatenate([BOXES, corners])
    found = box_colours(picture, boxes)
    assert found == [slow_colour(picture, box) for box in boxes]
    assert {"", "blue"} <= set(found)


def test_a_name_needs_35_percent() -> None:
    picture = np.full((40, 40, 3), 255, np.uint8)  # its middle is 20 by 20
    picture[10:30, 10:17] = (200, 20, 20)  # 35 % of it
    picture[10:30, 17:24] = (30, 60, 200)  # as much
    assert box_colours(picture, BOXES[:1]) == ["red"]
    picture[10, 10] = picture[10, 17] = (20, 20, 20)
    picture[10:20, 24:30] = (240, 140, 20)
    assert box_colours(picture, BOXES[:1]) == [""]


def test_real_attributes_agree(shared: Path) -> None:
    """Boxes are known to a tenth of a pixel only, so a few on a border differ."""
    pairs: list[tuple[str, str]] = []
    for image in read_real_regions(shared, 40):
        found = box_colours(image.pixels, image.boxes)
        pairs += zip(found[:-1], image.colours[:-1], strict=True)  # the last is the whole photo
    same = sum(one == other for one, other in pairs)
    assert len(pairs) > 150
    assert same >= 0.99 * len(pairs)

"""The colour of a region, as one word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NAMES = (
    "black",
    "white",
    "grey",
    "red",
    "orange",
    "yellow",
    "green",
    "blue",
    "purple",
    "pink",
    "brown",
)
SHARE = 0.35  # of the pixels, for a name to count
BLACK, WHITE, GREY, RED, ORANGE, YELLOW, GREEN, BLUE, PURPLE, PINK, BROWN = range(len(NAMES))
HUES = (15, 40, 70, 165, 255, 290, 345)  # degrees, where one name ends and the next begins
BROWN_HUE = 50  # below it, what is dark or dull is brown


def box_colours(pixels: NDArray[np.uint8], boxes: NDArray[np.floating]) -> list[str]:
    """Name the colour of the middle of each box, half as wide and half as high as the box.

    Args:
        pixels: [height, width, 3] uint8 RGB.
        boxes: [n, 4] x1, y1, x2, y2 relative to the photo (0 to 1).

    Returns:
        n strings: the commonest name in the middle if it covers 35 % of it, else "". Of names
        that are equally common it is the first in the order of `NAMES`.
    """
    names = name_pixels(pixels)
    height, width = names.shape
    centre, quarter = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 4
    size = np.array([width, height])
    start = np.minimum(np.floor((centre - quarter) * size), size - 1).astype(int)
    end = np.maximum(np.ceil((centre + quarter) * size).astype(int), start + 1)
    return [
        _commonest(names[y1:y2, x1:x2])
        for (x1, y1), (x2, y2) in zip(start.tolist(), end.tolist(), strict=True)
    ]


def name_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Name every pixel by hue, saturation and value.

    Args:
        pixels: [..., 3] uint8 RGB.

    Returns:
        [...] uint8, indices into `NAMES`.
    """
    hue, saturation, value = _hsv(pixels)
    order = np.array([RED, ORANGE, YELLOW, GREEN, BLUE, PURPLE, PINK, RED], np.uint8)
    names = order[np.digitize(hue, HUES)]
    pale, dull = saturation < 0.5, (saturation < 0.5) | (value < 0.65)
    reddish = (names == RED) | (names == PINK)
    names[dull & (hue < BROWN_HUE)] = BROWN
    names[reddish & pale & (value >= 0.7)] = PINK
    colourless = saturation < 0.18
    names[colourless] = np.where(value >= 0.75, WHITE, GREY)[colourless]
    names[value < 0.2] = BLACK
    return names


def _hsv(
    pixels: NDArray[np.uint8],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Hue in degrees (0 to 360), saturation and value (0 to 1), each [...] float32."""
    red, green, blue = np.moveaxis(pixels.astype(np.float32), -1, 0)
    value = pixels.max(axis=-1).astype(np.float32)
    spread = value - pixels.min(axis=-1)
    safe = np.maximum(spread, 1)  # without any spread the hue is 0
    sixths = np.where(
        value == red,
        (green - blue) / safe,
        np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = 60 * np.where(spread == 0, 0, sixths) % 360
    return hue.astype(np.float32), spread / np.maximum(value, 1), value / 255


def _commonest(names: NDArray[np.uint8]) -> str:
    counts = np.bincount(names.ravel(), minlength=len(NAMES))
    best = int(counts.argmax())
    return NAMES[best] if counts[best] >= SHARE * names.size else ""

"""Checks of every reader before features enter a store."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

# Files in half precision, and detectors that count pixels inclusively, are off by about this.
TOLERANCE = 0.01
SMALLEST = 2  # sides of photos in which a pixel may be a region


def check_features(values: NDArray[Any], where: str) -> NDArray[np.float16]:
    """Convert features to what a store contains.

    Args:
        values: [n, d] of any float type.
        where: file and line, for messages.

    Returns:
        [n, d] float16.

    Raises:
        InputError: if there is no row, or one holds a number that is not finite in float16, or
            nothing but zeros.
    """
    if not len(values):
        raise InputError(f"{where}: features: no rows")
    with np.errstate(over="ignore"):  # found below
        features = values.astype(np.float16)
    for row in np.flatnonzero(~np.isfinite(features).all(axis=1))[:1]:
        bad = values[row][~np.isfinite(features[row])][0]
        raise InputError(
            f"{where}: features, row {row + 1}: expected finite numbers within "
            f"±{np.finfo(np.float16).max:.0f}, found {bad}"
        )
    for row in np.flatnonzero(~features.any(axis=1))[:1]:
        raise InputError(f"{where}: features, row {row + 1}: all its numbers are 0")
    return features


def check_locations(values: NDArray[Any], where: str) -> NDArray[np.float32]:
    """Boxes of six numbers each: x1/W, y1/H, x2/W, y2/H, width/W, height/H.

    Args:
        values: [n, 6] of any float type, the end of each row of features.
        where: file and line, for messages.

    Returns:
        [n, 4] float32, the corners, within 0 and 1.

    Raises:
        InputError: if the rows end without locations, or a number is not finite or outside the
            photo, or they are in another order.
    """
    with np.errstate(over="ignore"):  # found below
        locations = values.astype(np.float32)
    order = "x1, y1, x2, y2, width, height relative to the photo"
    outside = ~((locations >= -TOLERANCE) & (locations <= 1 + TOLERANCE)).all(axis=1)
    sides = locations[:, 2:4] - locations[:, :2]
    turned = (sides < 0).any(axis=1)
    unlike = (np.abs(sides - locations[:, 4:]) > TOLERANCE).any(axis=1)
    reasons = {
        "numbers are not between 0 and 1": outside,
        "x1 > x2 or y1 > y2": turned,
        "width and height are not x2 - x1 and y2 - y1": unlike,
    }
    wrong = outside | turned | unlike
    # Vectors end with many zeros, which could be the corner of a photo.
    none = wrong.any() and not (~wrong & (sides > 0).all(axis=1)).any()
    for reason, rows in reasons.items():
        for row in np.flatnonzero(rows)[:1]:
            found = ", ".join(f"{value:.4g}" for value in locations[row])
            if none:
                raise InputError(
                    f"{where}: features: no row ends with the six numbers of a location, {order}; "
                    f"row {row + 1} ends with {found}. {_lacking(locations)}"
                )
            raise InputError(
                f"{where}: location, row {row + 1}: expected {order}, found {found}: {reason}"
            )
    return locations[:, :4].clip(0, 1)


def _lacking(ends: NDArray[np.float32]) -> str:
    """What to do about rows that end without locations, by their last six numbers."""
    corners = ends[:, 2:]
    if ((corners >= 0) & (corners <= 1)).all() and (corners[:, 2:] > corners[:, :2]).any():
        return "The last four may be x1, y1, x2, y2: append x2 - x1 and y2 - y1"
    return "Append the regions' locations, or import the files in a format that has boxes apart"


def relative_boxes(
    pixels: NDArray[Any], width: int, height: int, where: str
) -> NDArray[np.float32]:
    """Convert boxes to what a store contains.

    Args:
        pixels: [n, 4] of any float type: x1, y1, x2, y2.
        width: of the photo in pixels.
        height: of the photo in pixels.
        where: file, line and field, for messages.

    Returns:
        [n, 4] float32, within 0 and 1.

    Raises:
        InputError: if a number is not finite, a box is outside the photo or turned, or all boxes
            are relative already.
    """
    if min(width, height) > SMALLEST and _are_relative(pixels):
        raise InputError(
            f"{where}: expected x1, y1, x2, y2 in pixels, found numbers from 0 to 1 alone: these "
            f"boxes are relative to the photo; multiply them by its {width} x {height}"
        )
    with np.errstate(invalid="ignore"):  # NaN is found below
        relative = pixels / np.array([width, height, width, height], np.float64)
    within = ((relative >= -TOLERANCE) & (relative <= 1 + TOLERANCE)).all(axis=1)
    turned = (relative[:, 2:] < relative[:, :2]).any(axis=1)
    reasons = {
        f"it is not within the photo's {width} x {height}": ~within,
        "x1 > x2 or y1 > y2": turned,
    }
    for reason, rows in reasons.items():
        for row in np.flatnonzero(rows)[:1]:
            found = ", ".join(f"{value:.5g}" for value in pixels[row])
            raise InputError(
                f"{where}, row {row + 1}: expected x1, y1, x2, y2 in pixels, found {found}: "
                f"{reason}"
            )
    return relative.clip(0, 1).astype(np.float32)


def _are_relative(boxes: NDArray[Any]) -> bool:
    """Whether boxes lie within 0 and 1; those that are 0 throughout say nothing."""
    within = (boxes >= -TOLERANCE) & (boxes <= 1 + TOLERANCE)
    return bool(within.all() and boxes.any())

"""Boxes, classes and confidences as detectors of the bottom-up-attention family write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.check import TOLERANCE


def relative_boxes(
    pixels: NDArray[Any], width: int, height: int, where: str
) -> NDArray[np.float32]:
    """Boxes as a store holds them.

    Args:
        pixels: [n, 4] of any float type: x1, y1, x2, y2.
        width: of the photo in pixels.
        height: of the photo in pixels.
        where: file, line and field, for messages.

    Returns:
        [n, 4] float32, within 0 and 1.

    Raises:
        InputError: if a number is not finite, or a box is outside the photo or turned.
    """
    with np.errstate(invalid="ignore"):  # not numbers are found below
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


@dataclass(frozen=True)
class Classes:
    """What a detector took n regions for: the likeliest object and attribute of each.

    Attributes:
        where: file and line, for messages.
        objects_id: [n] of any integer type.
        objects_conf: [n] of any float type, 0 to 1.
        attrs_id: [n] of any integer type; None from a detector without attributes.
        attrs_conf: [n] of any float type, 0 to 1.

    Raises:
        InputError: naming file, line and field, if a confidence is not between 0 and 1.
    """

    where: str
    objects_id: NDArray[Any]
    objects_conf: NDArray[Any]
    attrs_id: NDArray[Any] | None = None
    attrs_conf: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("objects_conf", "attrs_conf"):
            values = getattr(self, name)
            if values is None:
                continue
            for row in np.flatnonzero(~((values >= 0) & (values <= 1 + TOLERANCE)))[:1]:
                raise InputError(
                    f"{self.where}: {name}, row {row + 1}: expected 0 to 1, found {values[row]}"
                )

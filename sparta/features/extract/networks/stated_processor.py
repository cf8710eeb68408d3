"""Preprocessing as a checkpoint's own file states it, where the library's needs torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparta.errors import InputError

FILE = "preprocessor_config.json"
# Processors that transformers has for torchvision alone, and that do nothing but resize,
# rescale and normalise.
PLAIN = ("DINOv3ViTImageProcessorFast", "DINOv3ViTImageProcessor")


class Square(NamedTuple):
    """The size of a network's photos in pixels."""

    height: int


@dataclass(frozen=True)
class StatedProcessor:
    """What the file states, under the names that transformers gives it."""

    image_mean: list[float]
    image_std: list[float]
    rescale_factor: float
    size: Square
    resample: int
    do_normalize = do_rescale = True
    do_center_crop = False


def stated_processor(stated: Mapping[str, Any]) -> StatedProcessor | None:
    """The preprocessing of a checkpoint with one of the plain processors, None for any other.

    Args:
        stated: content of its file.

    Raises:
        InputError: if that is not all of it.
    """
    if stated.get("image_processor_type") not in PLAIN:
        return None
    try:
        return StatedProcessor(
            stated["image_mean"],
            stated["image_std"],
            float(stated["rescale_factor"]),
            Square(int(stated["size"]["height"])),
            int(stated["resample"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{FILE} of the backbone has no usable {error}") from error

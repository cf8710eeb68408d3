"""Test-time augmentations of a photo: mirrored and cropped copies."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import NamedTuple

from sparta.errors import InputError


class Crop(NamedTuple):
    """The part of a photo to use.

    Attributes:
        box: x1, y1, x2, y2 relative to the upright photo.
        mirrored: whether left and right change places.
    """

    box: tuple[float, float, float, float]
    mirrored: bool


@dataclass(frozen=True)
class Augmentation:
    """A deterministic change of each photo: test-time augmentation, and several copies in training.

    Attributes:
        name: "plain", "flip" (mirrored) or "crop:SEED" (half to all of the area, its shape
            between 3:4 and 4:3 of the photo's, mirrored half of the time). A crop depends on the
            seed and the image id alone, so that reruns agree.
    """

    name: str

    def __post_init__(self) -> None:
        kind, _, seed = self.name.partition(":")
        if self.name not in ("plain", "flip") and not (kind == "crop" and seed.isdecimal()):
            raise InputError(
                f"--augmentation {self.name!r}: expected plain, flip or crop:SEED, as crop:1"
            )

    def of(self, image_id: str) -> Crop:
        """The part of a photo to use."""
        if not self.name.startswith("crop:"):
            return Crop((0.0, 0.0, 1.0, 1.0), self.name == "flip")
        key = hashlib.sha256(f"{self.name}:{image_id}".encode()).digest()
        rng = random.Random(int.from_bytes(key))
        area, shape = rng.uniform(0.5, 1.0), rng.uniform(3 / 4, 4 / 3)
        width, height = min(1.0, (area * shape) ** 0.5), min(1.0, (area / shape) ** 0.5)
        left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
        return Crop((left, top, left + width, top + height), rng.random() < 0.5)

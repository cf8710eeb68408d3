"""Photos to measure with: those of a folder, or drawn scenes enlarged to a camera's size."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from sparta.errors import InputError
from sparta.features.extract.image_files import FORMATS
from sparta.features.extract.photos import find_photos
from sparta.progress import Progress, no_progress

DISTINCT = 32  # drawn photos; beyond them the same files are linked under other names
QUALITY = 90
NOISE = 3  # standard deviation of the camera noise, in levels of 255


@dataclass(frozen=True)
class PhotoSet:
    """Photos to measure with.

    Attributes:
        name: of the set, such as "500x375".
        folder: of the photos.
        ids: of the photos in it.
    """

    name: str
    folder: Path
    ids: list[str]

    @classmethod
    def of(cls, folder: Path, name: str | None = None) -> PhotoSet:
        """All photos of a folder.

        Raises:
            InputError: if it has none.
        """
        return cls(name or folder.name, folder, find_photos(folder))

    @property
    def megabytes(self) -> float:
        """Mean size of a file."""
        sizes = [(self.folder / image_id).stat().st_size for image_id in self.ids]
        return sum(sizes) / len(sizes) / 1e6


def parse_sizes(text: str) -> list[tuple[int, int]]:
    """Widths and heights of "500x375,4000x3000".

    Raises:
        InputError: if it is something else.
    """
    found = [re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", part.strip()) for part in text.split(",")]
    sizes = [(int(one[1]), int(one[2])) for one in found if one]
    if len(sizes) < len(found) or min(map(min, sizes)) < 8:
        raise InputError(f"--sizes {text!r}: expected WIDTHxHEIGHT of at least 8, with commas")
    return sizes


def draw_photos(
    folder: Path, count: int, width: int, height: int, progress: Progress = no_progress
) -> PhotoSet:
    """Draw scenes (`sparta scenes`, seed 0), enlarge them, add noise and save them as JPEG.

    Args:
        folder: to write; must exist.
        count: of photos.
        width: of a photo, in pixels.
        height: of a photo, in pixels.
        progress: of the stage "draw", in drawings.
    """
    name, distinct = f"{width}x{height}", min(count, DISTINCT)
    photos = folder / name
    photos.mkdir()
    scenes = _scenes(folder / "scenes", distinct)
    for number, scene in enumerate(scenes):
        _enlarge(scene, width, height, number).save(photos / _name(number), quality=QUALITY)
        progress("draw", number + 1, distinct)
    for number in range(distinct, count):
        (photos / _name(number)).symlink_to(_name(number % distinct))
    return PhotoSet.of(photos, name)


def _name(number: int) -> str:
    return f"{number:06d}.jpg"


def _scenes(folder: Path, count: int) -> list[Path]:
    """Drawn by the command, since no room imports the one that draws; a finished folder stays."""
    command = [sys.executable, "-m", "sparta", "scenes", "--out", str(folder)]
    subprocess.run([*command, "--count", str(count)], check=True, stdout=subprocess.DEVNULL)
    return [folder / "images" / image_id for image_id in find_photos(folder / "images")]


def _enlarge(scene: Path, width: int, height: int, seed: int) -> Image.Image:
    with Image.open(scene, formats=FORMATS) as image:
        large = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(seed).normal(0, NOISE, (height, width, 1))
    return Image.fromarray((np.asarray(large) + noise).clip(0, 255).astype(np.uint8))

"""Find photos in a folder and decode any of them into upright RGB, or give the reason why not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from sparta.addresses import UnreachableError, is_remote
from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation, Crop
from sparta.features.extract.image_files import load_photo
from sparta.features.skipped import Skipped

SUFFIXES = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".webp",
        ".gif",
        ".bmp",
        ".tif",
        ".tiff",
        ".avif",
        ".heic",
        ".heif",
        ".hif",
        ".ppm",
        ".pgm",
        ".jp2",
    ]
)


@dataclass(frozen=True)
class Photo:
    """A decoded photo, stretched to a square.

    Attributes:
        image_id: path relative to the photos' folder.
        pixels: [side, side, 3] uint8 RGB.
        width: of the upright photo in pixels.
        height: of the upright photo in pixels.
        large: [3, height, width] uint8 RGB, as a detector requires it; None without one.
    """

    image_id: str
    pixels: NDArray[np.uint8]
    width: int
    height: int
    large: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Decoder:
    """Turns image ids into photos of one size; small enough to send to worker processes.

    Attributes:
        folder: of the photos.
        side: of the square.
        resample: Pillow's filter for it.
        augmentation: how each photo is mirrored and cropped.
        resize: resizes photos for a detector, if there is one.
    """

    folder: Path
    side: int
    resample: int
    augmentation: Augmentation
    resize: Callable[[Image.Image], NDArray[np.uint8]] | None = None

    def __call__(self, image_ids: list[str]) -> list[Photo | Skipped]:
        """Decode photos; one that cannot be used becomes its reason."""
        return [self.decode(image_id) for image_id in image_ids]

    def decode(self, image_id: str, crop: Crop | None = None) -> Photo | Skipped:
        """Decode one photo as the augmentation, or else `crop`, cuts and mirrors it.

        Raises:
            UnreachableError: if another machine has the photos, and does not answer.
        """
        try:
            image_id.encode()
        except UnicodeEncodeError:
            name = os.fsencode(image_id).decode(errors="backslashreplace")
            return Skipped(name, "the file name is not UTF-8")
        try:
            box, mirrored = crop or self.augmentation.of(image_id)
            needed = 0 if self.resize else self.side
            photo = load_photo(self.folder / image_id, needed)
            image, corners = photo.image, photo.part(box)
            small = image.resize((self.side, self.side), Image.Resampling(self.resample), corners)
            pixels = np.asarray(small)[:, ::-1] if mirrored else np.asarray(small)
            large = None
            if self.resize:
                shown = image.crop(corners)
                large = self.resize(ImageOps.mirror(shown) if mirrored else shown)
            return Photo(image_id, np.ascontiguousarray(pixels), photo.width, photo.height, large)
        except UnreachableError:
            raise
        except Exception as error:  # anything may come out of a damaged file
            return Skipped(image_id, _reason(error))


def find_photos(folder: Path) -> list[str]:
    """Sorted ids of everything in a folder, at any depth, that is named like a photo.

    Folders that cannot be read are among them, so that they are reported and not overlooked.
    Links to folders are not followed.

    Raises:
        InputError: if the folder does not exist or holds no photo.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the photos")
    found, closed = _listed(folder) if is_remote(folder) else _walked(folder)
    if not found:
        raise InputError(f"{folder} holds no photo ({', '.join(sorted(SUFFIXES))})")
    return sorted(found + closed)


def _listed(folder: Path) -> tuple[list[str], list[str]]:
    """Photos in a folder on another machine."""
    start = len(f"{folder}/")
    return [str(path)[start:] for path in folder.rglob("*") if _is_photo(path.name)], []


def _walked(folder: Path) -> tuple[list[str], list[str]]:
    """Photos in a folder of this machine, and folders in it that cannot be read."""
    found: list[str] = []
    closed: list[str] = []

    def note(error: OSError) -> None:
        closed.append(Path(error.filename).relative_to(folder).as_posix())

    for root, _, names in os.walk(folder, onerror=note):
        inside = Path(root).relative_to(folder)
        found += [(inside / name).as_posix() for name in names if _is_photo(name)]
    return found, closed


def _is_photo(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # without the path
    return str(error) or type(error).__name__

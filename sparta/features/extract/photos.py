"""Find photos in a folder and decode any of them into upright RGB, or give the reason why not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from sparta.addresses import UnreachableError, is_remote
from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation, Crop
from sparta.features.extract.image_files import load_photo, reason_of
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
        if unnamed := not_utf8(image_id):
            return unnamed
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
            return Skipped(image_id, reason_of(error))


def find_photos(folder: Path) -> list[str]:
    """Sorted ids of everything in a folder, at any depth, that is named like a photo.

    Paths that cannot be read are among them, folders too, so that they are reported and not
    overlooked.

    Raises:
        InputError: if the folder does not exist or holds no photo.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the photos")
    entries = list(walk_photos(folder))
    if all(error for _, error in entries):
        closed = [f"; {path or '.'}: {reason_of(error)}" for path, error in entries if error]
        suffixes = ", ".join(sorted(SUFFIXES))
        raise InputError(f"{folder} holds no photo ({suffixes}){''.join(closed)}")
    return sorted({path or "." for path, _ in entries})


def walk_photos(folder: Path) -> Iterator[tuple[str, OSError | None]]:
    """Paths in a folder, at any depth, that are named like photos, whatever they lead to.

    Links to folders are not followed. A folder that is named like a photo counts as one if it holds
    neither photos nor folders.

    Yields:
        path relative to the folder, and None; or the path of a folder that cannot be read, or not
        to its end ("" for the folder itself), and why.
    """
    if is_remote(folder):
        start = len(f"{folder}/")
        names = (str(path)[start:] for path in folder.rglob("*"))
        yield from ((name, None) for name in names if _is_photo(name))
        return
    waiting = [""]  # without recursion, which a deep folder would end
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as entries:
                useless = _is_photo(inside)
                for entry in entries:
                    path = f"{inside}/{entry.name}" if inside else entry.name
                    try:
                        if is_folder := entry.is_dir(follow_symlinks=False):
                            waiting.append(path)
                    except OSError as error:
                        yield path, error  # it may be a folder with photos
                        continue
                    if not is_folder and _is_photo(path):
                        yield path, None
                    useless = useless and not is_folder and not _is_photo(path)
                if useless:
                    yield inside, None
        except OSError as error:
            yield inside, error


def not_utf8(image_id: str) -> Skipped | None:
    """Why a path cannot be an id, None if it can: ids are text."""
    try:
        image_id.encode()
    except UnicodeEncodeError:
        name = os.fsencode(image_id).decode(errors="backslashreplace")
        return Skipped(name, "the file name is not UTF-8")
    return None


def _is_photo(path: str) -> bool:
    return Path(path).suffix.lower() in SUFFIXES

"""Find photos in a folder and decode any of them into upright RGB, or give the reason why not."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from sparta.errors import InputError
from sparta.extras import require
from sparta.features.extract.augmentations import Augmentation, Crop
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
MIN_SIDE = 8
HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


class PhotoError(Exception):
    """Why a photo cannot be used, in words for the report."""


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
        """Decode one photo as the augmentation, or else `crop`, cuts and mirrors it."""
        try:
            image_id.encode()
        except UnicodeEncodeError:
            name = os.fsencode(image_id).decode(errors="backslashreplace")
            return Skipped(name, "the file name is not UTF-8")
        try:
            box, mirrored = crop or self.augmentation.of(image_id)
            needed = 0 if self.resize else self.side
            image, width, height = load_photo(self.folder / image_id, needed)
            x1, y1, x2, y2 = box
            corners = (x1 * image.width, y1 * image.height, x2 * image.width, y2 * image.height)
            small = image.resize((self.side, self.side), Image.Resampling(self.resample), corners)
            pixels = np.asarray(small)[:, ::-1] if mirrored else np.asarray(small)
            large = None
            if self.resize:
                shown = image.crop(corners)
                large = self.resize(ImageOps.mirror(shown) if mirrored else shown)
            return Photo(image_id, np.ascontiguousarray(pixels), width, height, large)
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
    found: list[Path] = []
    closed: list[Path] = []
    for root, _, names in os.walk(
        folder, onerror=lambda error: closed.append(Path(error.filename))
    ):
        found += [Path(root, name) for name in names if Path(name).suffix.lower() in SUFFIXES]
    if not found:
        raise InputError(f"{folder} holds no photo ({', '.join(sorted(SUFFIXES))})")
    return sorted(path.relative_to(folder).as_posix() for path in found + closed)


def load_photo(path: Path, side: int = 0) -> tuple[Image.Image, int, int]:
    """Decode the first frame of an image file into upright RGB, transparent parts white.

    Args:
        path: the file.
        side: a JPEG may be decoded at a fraction of its size as long as both sides stay at least
            twice as long as this; 0 for full size.

    Returns:
        The image, and the upright photo's full width and height in pixels.

    Raises:
        PhotoError: if it is no regular file, too small, too large, or has no defined brightness.
        InputError: if it is a HEIC photo and pillow-heif is not installed.
        Exception: whatever Pillow raises on damaged files.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise PhotoError("a folder that cannot be read")
    if not stat.S_ISREG(status.st_mode):
        raise PhotoError("not a regular file")
    if not status.st_size:
        raise PhotoError("the file is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _open(path) as image:
            width, height = image.size
            if min(width, height) < MIN_SIDE:
                raise PhotoError(f"{width}x{height} pixels; both sides must be {MIN_SIDE} or more")
            if side and isinstance(image, JpegImageFile):  # a HEIC's draft is its thumbnail
                image.draft(None, (2 * side, 2 * side))
            if image.getexif().get(ExifTags.Base.Orientation, 1) >= 5:  # a quarter turn
                width, height = height, width
            return _to_rgb(ImageOps.exif_transpose(image)), width, height


def _open(path: Path) -> Image.Image:
    """Open an image of any format; HEIC, whatever the file is named, through pillow-heif.

    pillow-heif turns photos upright as the container requires and sets the EXIF orientation to 1.
    """
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        with path.open("rb") as file:
            head = file.read(12)
        if head[4:8] != b"ftyp" or head[8:] not in HEIF_BRANDS:
            raise
    require("pillow_heif").register_heif_opener()
    return Image.open(path)


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # without the path
    return str(error) or type(error).__name__


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise PhotoError("floating-point pixels have no defined white")
    if image.mode.startswith("I"):  # 16 bits per pixel; Pillow itself would clip at 255
        return Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8)).convert(
            "RGB"
        )
    if image.has_transparency_data:
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    return image.convert("RGB")

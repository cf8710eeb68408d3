"""An image file of any common format, decoded into upright RGB."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from threading import Lock, RLock
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageChops, ImageFile, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import TiffImageFile

from sparta.addresses import download, is_remote

MIN_SIDE = 8
# A JPEG decoded at reduced size has sides at least this many times those it is resized to: the
# features then differ from those of a full decoding by less than rounding to 8 bits changes them.
REDUCED = 2
# Of Pillow's formats, those that `find_photos` documents. Others are not tried, whatever a file is
# named: PostScript, for one, would be run by Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "JPEG2000", "PPM")
LARGE = 64_000_000  # pixels; a JPEG that has more is decoded at a fraction of its size
STRIP = 2**20  # pixels that are converted together
SHOWN = 0.5  # share of a damaged photo that has to be there
WARNING = "visualsparta:warning"  # in the info of an image
HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"}
CONTAINER_BRANDS = {b"mif1", b"msf1"}  # of HEIC and AVIF alike: the brands that follow tell which

Box = tuple[float, float, float, float]


class PhotoError(Exception):
    """Why a photo cannot be used, in words for the report."""


@dataclass(frozen=True)
class UprightPhoto:
    """A decoded image file, perhaps at a fraction of its size.

    Attributes:
        image: RGB.
        width: of the upright photo in pixels, at full size.
        height: likewise.
        extent: left, top, right and bottom of the photo in `image`, in pixels. Where the fraction
            of a side is no whole number, a part of the pixels at an edge is padding.
        warning: what is wrong with the file, or was done because of its size; "" for nothing.
    """

    image: Image.Image
    width: int
    height: int
    extent: Box
    warning: str = ""

    def part(self, box: Box) -> Box:
        """Corners in `image`, in pixels, of a box x1, y1, x2, y2 relative to the photo."""
        left, top, right, bottom = self.extent
        x1, y1, x2, y2 = box
        width, height = right - left, bottom - top
        return left + x1 * width, top + y1 * height, left + x2 * width, top + y2 * height


def load_photo(path: Path, side: int = 0) -> UprightPhoto:
    """Decode the first frame of an image file into upright RGB, transparent parts white.

    Of a damaged file what can be read is read, if it is more than half.

    Args:
        path: the file.
        side: a JPEG may be decoded at a fraction of its size as long as both sides stay at least
            twice as long as this; 0 for full size, or `LARGE` pixels.

    Raises:
        PhotoError: if it is no regular file, too small, too large, or has no defined brightness.
        InputError: if it is a HEIC photo and pillow-heif is not installed.
        UnreachableError: if another machine has it, and does not answer.
        Exception: whatever Pillow raises on damaged files.
    """
    with _opened(path) as image:
        return _decoded(image, path, side)


def _decoded(image: Image.Image, path: Path, side: int) -> UprightPhoto:
    """An image of a file, which is opened again if it is damaged, to read what can be read."""
    try:
        return _upright(image, side)
    except (OSError, SyntaxError, ValueError) as error:
        if getattr(error, "errno", None):
            raise  # of the disk, not of what is on it
        with _forgiving(), _opened(path) as again:
            photo = _upright(again, side)
        if _shown(photo.image) < SHOWN:
            raise
        return replace(photo, warning=f"read as far as possible: {reason_of(error)}")


def _shown(image: Image.Image) -> float:
    """The share of an image that is left without rows or columns of one colour at an edge."""
    width, height = image.size
    shown = 1.0
    for corner in ((0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)):
        blank = Image.new("RGB", image.size, image.getpixel(corner))  # as Pillow fills what lacks
        left, top, right, bottom = ImageChops.difference(image, blank).getbbox() or (0, 0, 0, 0)
        shown = min(shown, right / width, bottom / height, 1 - left / width, 1 - top / height)
    return shown


_one_forgives, _one_large = RLock(), Lock()


@contextmanager
def _forgiving() -> Iterator[None]:
    """Let Pillow pass over damage: an end that is missing, wrong or large extras of a PNG."""
    with _one_forgives:  # Pillow has one setting for all threads
        before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, True
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before


def small_picture(path: Path, size: int) -> Image.Image:
    """A photo, upright in RGB, whose longer side has at most so many pixels.

    One large photo at a time is in memory, however many threads call this.
    """
    with _opened(path) as image, _one_large if is_large(image) else nullcontext():
        # Half is enough for a decoding at a fraction: what is left is reduced by averaging.
        photo = _decoded(image, path, size // 2)
        made, (left, top, right, bottom) = photo.image, map(round, photo.extent)
        if (left, top, right, bottom) != (0, 0, *made.size):
            made = made.crop((left, top, right, bottom))
        made.thumbnail((size, size), Image.Resampling.LANCZOS)
        return made


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image file to decode it, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_image(path) as image:
            yield image


def readable_status(path: Path) -> os.stat_result:
    """Status of a regular file that this process may read, without opening it.

    Raises:
        PhotoError: if the path leads to something else.
        OSError: if it leads nowhere, or may not be read.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        try:
            os.scandir(path).close()
        except OSError as error:
            raise PhotoError(f"a folder that cannot be read: {error.strerror}") from error
        raise PhotoError("a folder, not a photo")
    _check_regular(status)
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return status


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PhotoError("not a regular file")


def open_photo(path: Path) -> BufferedReader | BytesIO:
    """Open the file of a photo. Never opens a FIFO or a device, and never waits for one.

    Raises:
        PhotoError: if the path leads to anything but a regular file.
        OSError: if it leads nowhere, or may not be read.
        UnreachableError: if another machine has it, and does not answer.
    """
    if is_remote(path):
        return BytesIO(download(path))
    readable_status(path)
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115
    try:
        _check_regular(os.fstat(file.fileno()))  # something else may have taken its place
    except BaseException:
        file.close()
        raise
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def open_image(path: Path | BytesIO) -> Iterator[ImageFile.ImageFile]:
    """Open an image of a documented format; HEIC, whatever the file is named, by pillow-heif.

    pillow-heif turns photos upright as the container requires and sets the EXIF orientation to 1.

    Raises:
        PhotoError: if the path leads to anything but a regular file, or the file is empty.
        Exception: whatever Pillow raises on damaged files.
    """
    with path if isinstance(path, BytesIO) else open_photo(path) as file:
        head = file.read(64)
        if not head:
            raise PhotoError("the file is empty")
        file.seek(0)
        if is_heic(head):
            import pillow_heif  # 0.2 s, which other photos need not wait for

            pillow_heif.register_heif_opener()
            image = Image.open(file, formats=["HEIF"])
        else:
            image = open_known(file)
        with image:
            yield image


def reason_of(error: Exception) -> str:
    """Why a photo cannot be used, in words and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def open_known(source: BinaryIO) -> ImageFile.ImageFile:
    """Open an image of one of `FORMATS`.

    `info` says as `WARNING` if parts of the file are passed over, or it is too large to be decoded
    as a whole.

    Raises:
        Image.DecompressionBombError: if it has more pixels than Pillow decodes, and is no JPEG,
            which is decoded at a fraction of its size.
        Exception: whatever Pillow raises on damaged files.
    """
    try:
        return _open(source)
    except Image.DecompressionBombError as error:
        try:
            source.seek(0)
            image: ImageFile.ImageFile = JpegImageFile(source)
        except SyntaxError:
            raise error from None
        image.info[WARNING] = (
            f"{image.width * image.height / 1e6:.0f} megapixels: decoded at reduced size"
        )
        return image
    except (UnidentifiedImageError, ValueError):
        source.seek(0)
        with _forgiving():
            image = _open(source)
        image.info[WARNING] = "read without a part that is damaged or too large"
        return image


def _open(source: BinaryIO) -> ImageFile.ImageFile:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(source, formats=FORMATS)


def is_large(image: Image.Image) -> bool:
    """Whether decoding an image takes memory for more than `LARGE` pixels."""
    return decoded_pixels(image) > LARGE and not _is_sequential(image)


def decoded_pixels(image: Image.Image) -> int:
    """The pixels of an image, or of one of its tiles if that has more."""
    width, height = image.size
    tags = getattr(image, "tag_v2", {})  # of TIFF
    tile = int(tags.get(_TILE_WIDTH, 0)) * int(tags.get(_TILE_HEIGHT, 0))
    return max(width * height, tile)


_TILE_WIDTH, _TILE_HEIGHT = 322, 323


def _is_sequential(image: Image.Image) -> bool:
    """Whether an image can be decoded at a fraction of its size in little memory.

    A JPEG in several scans, as a progressive one, is kept whole until the last of them.
    """
    if not isinstance(image, JpegImageFile) or image.info.get("progressive"):
        return False
    file = image.fp
    assert file is not None
    before = file.tell()
    try:
        file.seek(2)
        while (head := file.read(4))[:1] == b"\xff" and head[1] != _START_OF_SCAN:
            file.seek(int.from_bytes(head[2:]) - 2, 1)
        return file.read(1) == bytes([image.layers])  # the first scan has all colours
    finally:
        file.seek(before)


_START_OF_SCAN = 0xDA


def is_heic(head: bytes) -> bool:
    """Whether a file that begins so, with 64 bytes or fewer, is a HEIC photo.

    A container lists its brands in a first box "ftyp": the main one, a version, and others.
    """
    if head[4:8] != b"ftyp":
        return False
    end = min(len(head), int.from_bytes(head[:4], "big"))
    others = {head[at : at + 4] for at in range(16, end, 4)}
    main = head[8:12]
    return main in HEIF_BRANDS or (
        main in CONTAINER_BRANDS and (bool(others & HEIF_BRANDS) or not others & {b"avif", b"avis"})
    )


def _upright(image: Image.Image, side: int) -> UprightPhoto:
    if isinstance(image, TiffImageFile):
        image.load()  # which turns it
    width, height = image.size
    if min(width, height) < MIN_SIDE:
        raise PhotoError(f"{width}x{height} pixels; both sides must be {MIN_SIDE} or more")
    drafted = None
    fraction = next((n for n in (1, 2, 4) if width * height <= LARGE * n * n), 8)
    if (side or fraction > 1) and isinstance(image, JpegImageFile):  # a HEIC's is its thumbnail
        wanted = (REDUCED * side, REDUCED * side) if side else (width, height)
        drafted = image.draft(
            None, (min(wanted[0], width // fraction), min(wanted[1], height // fraction))
        )
    x, y = drafted[1][2:] if drafted else (width, height)
    image.load()
    orientation = 1
    with suppress(Exception):  # anything may come out of damaged EXIF
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
        ImageOps.exif_transpose(image, in_place=True)
    if orientation in (5, 6, 7, 8):  # a quarter turn
        width, height, x, y = height, width, y, x
    upright = _to_rgb(image)
    # Padding is at the right and at the bottom of the image as it is stored.
    left = upright.width - x if orientation in (2, 3, 6, 7) else 0
    top = upright.height - y if orientation in (3, 4, 7, 8) else 0
    extent = left, top, left + x, top + y
    return UprightPhoto(upright, width, height, extent, image.info.get(WARNING, ""))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise PhotoError("floating-point pixels have no defined white")
    if image.mode.startswith("I"):
        return _in_strips(image, _with_8_bits)
    if image.has_transparency_data:
        return _in_strips(image, _above_white)
    if image.mode == "RGB":
        return image._new(image.im)  # the same pixels: a copy would take as much memory again
    return image.convert("RGB")


def _in_strips(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Convert an image strip by strip, since its conversion takes several times its memory."""
    made, (width, height) = Image.new("RGB", image.size), image.size
    rows = max(1, STRIP // width)
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        made.paste(convert(strip), (0, top))
    return made


def _with_8_bits(image: Image.Image) -> Image.Image:
    """16 bits per pixel, which Pillow itself would clip at 255."""
    return Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8)).convert(
        "RGB"
    )


def _above_white(image: Image.Image) -> Image.Image:
    above = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")

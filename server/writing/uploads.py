"""Photos that were sent to a server, kept in the index folder by a hash of their content."""

from __future__ import annotations

import hashlib
import os
import re
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from PIL import Image

from indexer.manifest import UPLOADS
from sparta.atomic import sync
from sparta.errors import InputError
from sparta.features.extract.image_files import LARGE, decoded_pixels, is_large, open_image

_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.[a-z0-9]{2,5}")
LARGEST = 256_000_000  # pixels of a photo that is sent
SUFFIXES = {"JPEG": "jpg", "MPO": "jpg", "JPEG2000": "jp2", "TIFF": "tif"}


def keep_upload(index: Path, photo: bytes) -> str:
    """Write a photo below the index folder and sync it, unless it is there.

    Args:
        index: the index folder.
        photo: the content of the file.

    Returns:
        its name, for `upload_path`.

    Raises:
        InputError: if it is no image of a known format, or too large.
        OSError: if it cannot be written.
    """
    suffix = check_photo(photo).suffix
    digest = hashlib.sha256(photo).hexdigest()
    folder = index / UPLOADS / digest[:2]
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
        try:
            file.write(photo)
            file.flush()
            path = folder / f"{digest}.{suffix}"
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink()
            raise
    for one in (folder, folder.parent, index):
        sync(one)
    return f"{digest[:2]}/{path.name}"


def upload_path(index: Path, name: object) -> Path | None:
    """The file of an upload by its name in the metadata; None if the name is not one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    return index / UPLOADS / name


def has_uploads(index: Path | None) -> bool:
    """Whether photos were sent to the server of an index."""
    return index is not None and (index / UPLOADS).is_dir()


class CheckedPhoto(NamedTuple):
    """A photo that was sent.

    Attributes:
        suffix: that its file should have.
        pixels: of it.
    """

    suffix: str
    pixels: int


def check_photo(photo: bytes) -> CheckedPhoto:
    """What the header of a photo says; it is not decoded.

    Raises:
        InputError: if it is no image of a known format, or decoding it would take too much memory.
    """
    try:
        with open_image(BytesIO(photo)) as image:
            found, pixels, large = str(image.format), decoded_pixels(image), is_large(image)
    except Image.DecompressionBombError:
        found, pixels, large = "", LARGEST + 1, True
    except Exception as error:  # anything may come out of a damaged file
        raise InputError(
            "the photo cannot be used: not an image, or of an unknown format"
        ) from error
    if large or pixels > LARGEST:
        has = f"has {pixels / 1e6:.1f} megapixels" if found else "is too large"
        raise InputError(
            f"the photo {has}; {LARGE // 10**6} are allowed, and {LARGEST // 10**6} in a JPEG that "
            "is not progressive: send it smaller"
        )
    return CheckedPhoto(SUFFIXES.get(found, found.lower()), pixels)

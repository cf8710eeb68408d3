"""The files of photos: found without ever leaving their folder, kept when sent, and reduced."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import BoundedSemaphore
from typing import NamedTuple

from PIL import Image

from indexer.manifest import UPLOAD, UPLOADS
from server.problems import ProblemError
from sparta.errors import InputError, first_line
from sparta.extract.image_files import (
    LARGE,
    PhotoError,
    decoded_pixels,
    is_large,
    open_image,
    open_known,
    open_photo,
    small_picture,
)
from sparta.files import sync
from sparta.json_values import JsonMapping, JsonValue

LARGEST = 256_000_000  # pixels of a photo that is sent
SUFFIXES = {"JPEG": "jpg", "MPO": "jpg", "JPEG2000": "jp2", "TIFF": "tif"}
SIZES = (256, 512)  # pixels of the longer side of small pictures
QUALITY = 80
MEDIA_TYPE = "image/jpeg"
KEPT = 1000  # pictures of a process, some 60 MB
DECODED_AT_ONCE = 2  # photos, each of which may take hundreds of megabytes
_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.[a-z0-9]{2,5}")


class PhotoFile(NamedTuple):
    """The file of an image, whose media type is that of its content."""

    path: Path
    media_type: str
    stat: os.stat_result

    @property
    def tag(self) -> str:
        """An entity tag that changes whenever the file does: a change time cannot be set back."""
        found = self.stat
        return f'"{found.st_mtime_ns:x}-{found.st_ctime_ns:x}-{found.st_size:x}"'

    def picture_tag(self, size: int) -> str:
        """The tag of a small picture of it."""
        return f'{self.tag[:-1]}-{size}"'


def find_photo(
    folder: Path | None, index: Path | None, image_id: str, metadata: JsonMapping
) -> PhotoFile:
    """The file of an indexed image.

    `folder` has the photos, `index` those that were sent; None without them.

    Raises:
        ProblemError: if the file is missing, is not a regular file or no photo, or is outside the
            folder.
    """
    if UPLOAD not in metadata:
        path = _in_folder(folder, image_id)
    else:
        upload = upload_path(index, metadata[UPLOAD]) if index else None
        if upload is None or not upload.is_file():
            sent = "its photo is missing" if metadata[UPLOAD] else "without a photo"
            detail = f"image {image_id!r} was sent to a server, {sent}"
            raise ProblemError("photo-missing", detail, "image_id")
        path = upload
    try:
        kind, stat = _media_type(path), path.stat()
    except (OSError, PhotoError) as error:
        detail = f"the file of image {image_id!r} cannot be read"
        raise ProblemError("photo-missing", detail, "image_id") from error
    if kind is None:
        detail = f"the file of image {image_id!r} is not a photo"
        raise ProblemError("photo-unreadable", detail, "image_id")
    return PhotoFile(path, kind, stat)


def _in_folder(folder: Path | None, image_id: str) -> Path:
    """The file in the photos folder that an id names.

    An index may come from another machine, so even its image ids are not trusted to stay inside
    the photos folder.
    """
    missing = f"image {image_id!r} is in the index, but its file is missing from the photos folder"
    if folder is None:
        missing = "this server has no photos folder; start it with --photos DIR"
        raise ProblemError("photo-missing", missing, "image_id")
    try:
        path = (folder / image_id).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        # Python 3.11 raises RuntimeError for a loop of links, and ValueError for a NUL in a name.
        if os.path.islink(folder / image_id):  # noqa: PTH114, which fails for some names
            missing = f"image {image_id!r} is a link to a file that is not there"
        raise ProblemError("photo-missing", missing, "image_id") from error
    if not path.is_relative_to(folder.resolve()):
        detail = (
            f"image {image_id!r} leads out of the photos folder, as a link does whose file is "
            "elsewhere; only files inside are served: index the folder that holds them, or copy "
            "them"
        )
        raise ProblemError("photo-forbidden", detail, "image_id")
    if not path.is_file():
        raise ProblemError("photo-missing", missing, "image_id")
    return path


def _media_type(path: Path) -> str | None:
    """Media type of a photo by its content, not its name; None for anything else.

    Whoever may write can name any file of the photos folder as an image. Pages and scripted SVG
    are no photos either, whatever their names.

    Raises:
        OSError: if the file cannot be read.
        PhotoError: if it is no regular file any more.
    """
    with open_photo(path) as file:
        try:
            with open_known(file) as image:
                found = str(image.format)
        except Exception:  # anything may come out of a damaged file
            return None
    # MPO, which cameras write, is a JPEG with further images appended; browsers know only JPEG.
    return "image/jpeg" if found == "MPO" else Image.MIME.get(found)


def not_modified(headers: Mapping[str, str], tag: str, modified: float) -> bool:
    """Whether a client has a file already, so that its answer is 304.

    `tag` is the file's entity tag; `modified` the time of its change in seconds since 1970.
    """
    if (tags := headers.get("if-none-match")) is not None:
        listed = [one.strip().removeprefix("W/") for one in tags.split(",")]
        return listed == ["*"] or tag in listed
    try:
        since = parsedate_to_datetime(headers["if-modified-since"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return False
    return int(modified) <= since


def keep_upload(index: Path, photo: bytes) -> str:
    """Write a photo below the index folder and sync it, unless it is there.

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


def upload_path(index: Path, name: JsonValue) -> Path | None:
    """The file of an upload by its name in the metadata; None if the name is not one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    return index / UPLOADS / name


def has_uploads(index: Path | None) -> bool:
    """Whether photos were sent to the server of an index."""
    return index is not None and (index / UPLOADS).is_dir()


class CheckedPhoto(NamedTuple):
    """A photo that was sent: the suffix that its file should have, and its pixels."""

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


class Thumbnails:
    """Makes pictures of photos and keeps those used last. Safe from any thread.

    They have no metadata of the photo: neither where it was taken nor a larger preview.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._decoding = BoundedSemaphore(DECODED_AT_ONCE)
        self._of = lru_cache(kept)(self._made)

    def of(self, photo: PhotoFile, size: int) -> bytes:
        """The picture of a photo as JPEG: upright, its longer side at most `size` pixels.

        Raises:
            ProblemError: if the file cannot be shown as a picture.
        """
        return self._of(photo.path, size, photo.tag)

    def _made(self, path: Path, size: int, _: str) -> bytes:
        with self._decoding:
            try:
                made = BytesIO()
                small_picture(path, size).save(made, "JPEG", quality=QUALITY)
            except Exception as error:  # anything may come out of a damaged file
                reason = first_line(error).replace(str(path), path.name) or type(error).__name__
                detail = f"the file of the image cannot be shown as a picture: {reason}"
                raise ProblemError("photo-unreadable", detail, "image_id") from error
        return made.getvalue()

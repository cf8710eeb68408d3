"""Small pictures of photos, and the newest of them in memory."""

from __future__ import annotations

from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from threading import BoundedSemaphore, Lock

from server.conditional import entity_tag
from server.problems import ProblemError
from sparta.errors import first_line
from sparta.features.extract.image_files import small_picture

SIZES = (256, 512)  # pixels of the longer side
QUALITY = 80
MEDIA_TYPE = "image/jpeg"
CACHED_BYTES = 2**26  # of all pictures of a process
DECODED_AT_ONCE = 2  # photos, each of which may take hundreds of megabytes


class Thumbnails:
    """Makes pictures of photos and keeps those used last. Safe from any thread.

    They have no metadata of the photo: neither where it was taken nor a larger preview.

    Args:
        cached_bytes: of all pictures at most.
    """

    def __init__(self, cached_bytes: int = CACHED_BYTES) -> None:
        self._room = cached_bytes
        self._pictures: OrderedDict[tuple[Path, str], bytes] = OrderedDict()
        self._lock = Lock()
        self._decoding = BoundedSemaphore(DECODED_AT_ONCE)

    def of(self, path: Path, size: int) -> bytes:
        """The picture of a photo as JPEG: upright, and no larger than the photo.

        Args:
            path: of its file.
            size: of the longer side at most, in pixels.

        Raises:
            ProblemError: if the file cannot be shown as a picture.
        """
        key = path, picture_tag(path, size)
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        with self._decoding:
            try:
                made = _small(path, size)
            except Exception as error:  # anything may come out of a damaged file
                reason = first_line(error) or type(error).__name__
                detail = f"the file of the image cannot be shown as a picture: {reason}"
                raise ProblemError("photo-unreadable", detail, "image_id") from error
        self._remember(key, made)
        return made

    def _remember(self, key: tuple[Path, str], picture: bytes) -> None:
        with self._lock:
            if key not in self._pictures:
                self._room -= len(picture)
                self._pictures[key] = picture
            while self._room < 0:
                self._room += len(self._pictures.popitem(last=False)[1])


def picture_tag(path: Path, size: int) -> str:
    """The entity tag of a picture, which changes with the file.

    Raises:
        OSError: if there is no such file.
    """
    return f'{entity_tag(path.stat())[:-1]}-{size}"'


def _small(path: Path, size: int) -> bytes:
    out = BytesIO()
    small_picture(path, size).save(out, "JPEG", quality=QUALITY)
    return out.getvalue()

"""The files of a folder of photos: their sizes and times, and links among them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sparta.addresses import is_remote
from sparta.features.extract.image_files import PhotoError, readable_status
from sparta.features.unchanged import Stamps


class Stamp(NamedTuple):
    """What changes when a file is replaced, or can be read again; both -1 if it cannot be read.

    Attributes:
        bytes: size.
        mtime_ns: time of modification.
    """

    bytes: int
    mtime_ns: int


UNKNOWN = Stamp(-1, -1)


def read_stamp(path: Path) -> Stamp:
    """The stamp of a photo's file.

    Raises:
        PhotoError: if it is no regular file.
        OSError: if it is not there, or may not be read.
    """
    status = path.stat() if is_remote(path) else readable_status(path)
    return Stamp(status.st_size, status.st_mtime_ns)


def stamp_of(path: Path) -> Stamp:
    """The stamp of a photo's file, unknown if it cannot be read."""
    try:
        return read_stamp(path)
    except (OSError, PhotoError):
        return UNKNOWN


def file_stamps(folder: Path, ids: Iterable[str]) -> Stamps:
    """The stamp of each photo, as JSON has it."""
    return {image_id: list(stamp_of(folder / image_id)) for image_id in ids}


def listing_hash(stamps: Stamps) -> str:
    """Hash of names and sizes."""
    digest = hashlib.sha256()
    for image_id, (size, _) in stamps.items():
        digest.update(os.fsencode(f"{image_id}\0{size}\0"))
    return digest.hexdigest()[:16]


def links_outside(folder: Path, ids: Iterable[str]) -> int:
    """How many photos are links that lead out of the folder."""
    if is_remote(folder):
        return 0
    inside = os.path.realpath(folder)
    links = (path for one in ids if os.path.islink(path := folder / one))  # noqa: PTH114
    # Unlike methods of `Path`, these functions raise nothing for circles and over-long names.
    return sum(not Path(os.path.realpath(path)).is_relative_to(inside) for path in links)

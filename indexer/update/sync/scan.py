"""The photos of a folder as they are now."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sparta.features.extract.photos import SUFFIXES

NOT_UTF8 = "the file name is not UTF-8"


class Stamp(NamedTuple):
    """What changes when a file is replaced; both -1 if unknown.

    Attributes:
        bytes: size.
        mtime_ns: time of modification.
    """

    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Scan:
    """Photos below a folder.

    Attributes:
        photos: stamp of each, by id.
        closed: folders that cannot be read, as beginnings of ids; what is in them is unknown.
        unnamed: names that are not UTF-8, which no id can be.
    """

    photos: dict[str, Stamp]
    closed: list[str]
    unnamed: list[str]

    def hides(self, image_id: str) -> bool:
        """Whether a photo that was not found may still be there."""
        return any(image_id.startswith(folder) for folder in self.closed)


def scan_photos(root: Path, below: str = "") -> Scan:
    """Find everything that is named like a photo. Links to folders are not followed.

    Args:
        root: the folder that ids are relative to.
        below: the beginning of the ids wanted: "" or a folder in it with a slash at the end.
    """
    photos: dict[str, Stamp] = {}
    closed: list[str] = []
    unnamed: list[str] = []

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            folder = Path(error.filename).relative_to(root).as_posix()
            closed.append("" if folder == "." else f"{folder}/")

    for folder, _, names in os.walk(root / below, onerror=note):
        inside = Path(folder).relative_to(root)
        for name in names:
            image_id = (inside / name).as_posix()
            if Path(name).suffix.lower() not in SUFFIXES:
                continue
            if is_utf8(image_id):
                photos[image_id] = stamp_of(root / image_id)
            else:
                unnamed.append(os.fsencode(image_id).decode(errors="backslashreplace"))
    return Scan(dict(sorted(photos.items())), closed, unnamed)


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file, unknown if it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return Stamp(-1, -1)
    return Stamp(status.st_size, status.st_mtime_ns)


def is_utf8(name: str) -> bool:
    """Whether a name is text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

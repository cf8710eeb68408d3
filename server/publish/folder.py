"""The folder of a published site, in which files are left alone while they stay the same."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from sparta.errors import InputError
from sparta.files import is_free

MARKER = "index/index.json"  # of a site that is complete
UNFINISHED = ".publishing"  # of one that is being written
# Files named by their content, which only this module writes.
_NAMED = re.compile(r"(index/[a-z]+|photos/\d+|photos/original)-[0-9a-f]{16}(\.[a-z]+)?")
_TEMPORARY = ".part"


class SiteFolder:
    """Writes the files of a site, so that a killed run leaves whole files or none.

    The folder is empty, missing, or a site published before; raises InputError if it has something
    else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sizes: dict[str, int] = {}  # bytes of each file by its path, in the order of writing
        self.rewritten: list[str] = []  # paths of those that were not there, or were different
        own = (folder / MARKER, folder / UNFINISHED)
        if folder.is_dir() and not is_free(folder) and not any(one.is_file() for one in own):
            raise InputError(f"--out {folder} has files of something else: give a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / UNFINISHED).touch()

    def put(self, path: str, content: bytes) -> None:
        """Write a file, unless it is there and the same."""
        place = self.folder / path
        same = place.is_file() and place.stat().st_size == len(content)
        if not same or place.read_bytes() != content:
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(place.name + _TEMPORARY)
            part.write_bytes(content)
            part.replace(place)
            self.rewritten.append(path)
        self.sizes[path] = len(content)

    def put_named(self, stem: str, content: bytes) -> str:
        """Write a file named by its content, such as index/terms-0f3a….bin; returns its name."""
        path = f"{stem}-{digest(content)}.bin"
        self.put(path, content)
        return path.rpartition("/")[2]

    def has(self, path: str) -> bool:
        """Whether a file is there and no part of one; then it belongs to the site."""
        place = self.folder / path
        if not place.is_file() or not place.stat().st_size:
            return False
        self.sizes[path] = place.stat().st_size
        return True

    def finish(self) -> list[str]:
        """Remove what was published before and is no longer part of the site; returns the paths.

        Only files whose names only this module gives are removed.
        """
        gone = []
        for place in sorted((*self.folder.glob("index/*"), *self.folder.glob("photos/*"))):
            path = place.relative_to(self.folder).as_posix()
            if _NAMED.fullmatch(path.removesuffix(_TEMPORARY)) and path not in self.sizes:
                place.unlink()
                gone.append(path)
        (self.folder / UNFINISHED).unlink()
        return gone


def digest(content: bytes) -> str:
    """By which a file is named."""
    return hashlib.sha256(content).hexdigest()[:16]

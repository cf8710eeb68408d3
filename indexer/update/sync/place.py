"""Which folder the ids of photos are relative to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from indexer.update.sync.seen import synced_folders
from sparta.errors import InputError


class Place(NamedTuple):
    """A folder of photos and what of it is compared.

    Attributes:
        root: the folder that ids are relative to.
        below: how the ids begin: "" for the whole folder, else a folder in it and a slash.
    """

    root: Path
    below: str

    @property
    def folder(self) -> Path:
        """The folder that is compared."""
        return self.root / self.below


def place_of(index: Path, photos: Path, built_from: str | None) -> Place:
    """Find out how a folder's photos are named in an index.

    Photos in the folder that the index was built from, or in one that was compared before, have
    ids relative to that folder; those in another folder have ids relative to it.

    Args:
        index: the index folder.
        photos: need not exist.
        built_from: the folder that the index was built from, None if unknown.

    Raises:
        InputError: if it is a file, or contains a folder whose photos have ids relative to that.
    """
    if photos.is_file():
        raise InputError(f"{photos} is a file: give the folder of the photos")
    folder = Path(os.path.realpath(photos))  # `resolve` raises for links in a circle
    known = synced_folders(index) + ([Path(os.path.realpath(built_from))] if built_from else [])
    for inner in known:
        if inner != folder and inner.is_relative_to(folder):
            raise InputError(
                f"{photos} contains {inner}, to which ids of photos in {index} are relative: give "
                "that folder, and others beside it one by one"
            )
    roots = [root for root in known if folder.is_relative_to(root)]
    root = max(roots, key=lambda path: len(path.parts), default=folder)
    inside = folder.relative_to(root).as_posix()
    return Place(root, "" if inside == "." else f"{inside}/")

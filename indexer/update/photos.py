"""Photos to add to an index, and the ids they have there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sparta.errors import InputError
from sparta.features.extract.photos import find_photos


class ChosenPhotos(NamedTuple):
    """Photos of one folder.

    Attributes:
        folder: that the ids are relative to.
        ids: sorted, each once.
    """

    folder: Path
    ids: list[str]


def choose_photos(paths: Sequence[Path], photos: str | None) -> ChosenPhotos:
    """Find photos and give them ids as `sparta index` would.

    Photos in the folder that the index was built from have ids relative to it. Others must be in
    one folder, to which theirs are relative.

    Args:
        paths: photos, and folders that are searched at any depth.
        photos: the folder that the index was built from, None if it records none.

    Raises:
        InputError: if a path does not exist, a folder has no photo, or photos are in several
            folders outside of the index's.
    """
    for path in paths:
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(f"{path} does not exist: give photos, or folders of photos") from error
        except OSError:
            continue  # it is reported with the photos that cannot be read
    # The last part of a photo's path is its name, even if that is a link.
    folders = [os.path.isdir(path) for path in paths]  # noqa: PTH112
    places = [_real(path if one else path.parent) for path, one in zip(paths, folders, strict=True)]
    folder = _common_folder(places, _real(Path(photos)) if photos else None)
    ids: set[str] = set()
    for path, place, is_folder in zip(paths, places, folders, strict=True):
        inside = place.relative_to(folder)
        names = find_photos(place) if is_folder else [path.name]
        ids |= {(inside / name).as_posix() for name in names}
    return ChosenPhotos(folder, sorted(ids))


def _real(path: Path) -> Path:
    """A path without links; unlike `resolve`, also of links in a circle and over-long names."""
    return Path(os.path.realpath(path))


def _common_folder(places: Sequence[Path], photos: Path | None) -> Path:
    """The index's folder of photos if it contains all places, else the one place there is."""
    if photos is not None and all(place.is_relative_to(photos) for place in places):
        return photos
    if len(set(places)) > 1:
        raise InputError(
            f"{places[0]} and {places[1]} are not both in the folder that the index was built from"
            f" ({photos or 'which it does not record'}): add one folder at a time"
        )
    return places[0]

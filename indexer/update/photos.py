"""Photos to add to an index, and the ids they have there."""

from __future__ import annotations

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
        if not path.exists():
            raise InputError(f"{path} does not exist: give photos, or folders of photos")
    # The last part of a photo's path is its name, even if that is a link.
    places = [path.resolve() if path.is_dir() else path.parent.resolve() for path in paths]
    folder = _common_folder(places, Path(photos).resolve() if photos else None)
    ids: set[str] = set()
    for path, place in zip(paths, places, strict=True):
        inside = place.relative_to(folder)
        names = find_photos(place) if path.is_dir() else [path.name]
        ids |= {(inside / name).as_posix() for name in names}
    return ChosenPhotos(folder, sorted(ids))


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

"""A captioned photo, and what every reader of captions checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparta.errors import InputError


@dataclass(frozen=True)
class CaptionedPhoto:
    """A photo's id in the feature store, its split and its captions."""

    image_id: str
    split: str
    captions: tuple[str, ...]


def checked(image_id: str, split: str, captions: Sequence[str], where: str) -> CaptionedPhoto:
    """A captioned photo none of whose captions is blank.

    Raises:
        InputError: if one is.
    """
    if any(not caption.strip() for caption in captions):
        raise InputError(f"{where}: captions: one of them is blank")
    return CaptionedPhoto(image_id, split, tuple(captions))


def first_captions(captions: Sequence[str], count: int, where: str) -> Sequence[str]:
    """The first `count` captions of a photo.

    Raises:
        InputError: if there are fewer.
    """
    if len(captions) < count:
        raise InputError(f"{where}: captions: expected {count}, found {len(captions)}")
    return captions[:count]


def each_once(photos: Iterable[tuple[str, CaptionedPhoto]]) -> list[CaptionedPhoto]:
    """The photos, each given with its place in the file, if no two have the same id.

    Raises:
        InputError: if an image appears twice.
    """
    kept: dict[str, CaptionedPhoto] = {}
    for where, photo in photos:
        if photo.image_id in kept:
            raise InputError(f"{where}: image {photo.image_id!r} appears twice")
        kept[photo.image_id] = photo
    return list(kept.values())


def of_split(
    photos: Sequence[CaptionedPhoto], split: str | None, path: Path
) -> list[CaptionedPhoto]:
    """Photos of one split (None: all).

    Raises:
        InputError: if there is none.
    """
    kept = [photo for photo in photos if split in (None, photo.split)]
    if not kept:
        splits = sorted({photo.split for photo in photos})
        raise InputError(f"{path}: no photo has split {split!r}; the file has {splits}")
    return kept

"""A captioned photo, and what every reader of captions checks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparta.errors import InputError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaptionedPhoto:
    """A photo's id in the feature store, its split and its captions."""

    image_id: str
    split: str
    captions: tuple[str, ...]


def checked(image_id: str, split: str, captions: Sequence[str], where: str) -> CaptionedPhoto:
    """A captioned photo none of whose captions is blank, all of it text that UTF-8 can hold.

    Raises:
        InputError: if it is not.
    """
    if any(not caption.strip() for caption in captions):
        raise InputError(f"{where}: captions: one of them is blank")
    try:
        "".join([image_id, split, *captions]).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise InputError(f"{where}: half of a surrogate pair ({half}) is no character") from error
    return CaptionedPhoto(image_id, split, tuple(captions))


class FirstCaptions:
    """The first captions of each photo of a file; those that are left out are counted.

    Args:
        path: of the file.
        count: of captions of a photo.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._path, self._count = path, count
        self._photos = self._left_out = 0

    def of(self, captions: Sequence[str], where: str) -> Sequence[str]:
        """The first captions of a photo.

        Raises:
            InputError: if there are fewer.
        """
        if len(captions) < self._count:
            raise InputError(
                f"{where}: captions: expected {self._count}, found {len(captions)}; "
                "sparta captions --captions-per-photo takes another number"
            )
        self._photos += len(captions) > self._count
        self._left_out += len(captions) - self._count
        return captions[: self._count]

    def warn(self) -> None:
        """Log how many captions were left out, if any."""
        if self._left_out:
            log.warning(
                "%s: captions after a photo's first %d are left out: %d of %d photos",
                self._path,
                self._count,
                self._left_out,
                self._photos,
            )


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
    if not photos:
        raise InputError(f"{path} has no captions")
    if not kept:
        splits = sorted({photo.split for photo in photos})
        raise InputError(f"{path}: no photo has split {split!r}; the file has {splits}")
    return kept

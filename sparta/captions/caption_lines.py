"""What the text files with one caption a line have in common."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sparta.captions.record import CaptionedPhoto, captioned
from sparta.errors import InputError

SPLIT = "train"  # of all photos: such files have no splits


class CaptionLine(NamedTuple):
    """A caption of a photo.

    Attributes:
        where: file and line, for messages.
        image: the photo's id.
        number: of the caption among the photo's, "" where the file has none.
        text: the caption.
    """

    where: str
    image: str
    number: str
    text: str


def by_photo(path: Path, lines: Iterable[CaptionLine]) -> list[CaptionedPhoto]:
    """Photos in order of their first lines, with all their captions in order of the file.

    Raises:
        InputError: if an image is blank, or a photo has two captions of one number.
    """
    photos: dict[str, list[CaptionLine]] = {}
    seen: set[tuple[str, str]] = set()
    for line in lines:
        if not line.image:
            raise InputError(f"{line.where}: image: it is blank")
        if line.number and (line.image, line.number) in seen:
            raise InputError(f"{line.where}: caption {line.number} of {line.image} appears twice")
        seen.add((line.image, line.number))
        photos.setdefault(line.image, []).append(line)
    return captioned(
        path,
        (
            (own[0].where, CaptionedPhoto(image, SPLIT, tuple(line.text for line in own)))
            for image, own in photos.items()
        ),
    )

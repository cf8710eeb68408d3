"""A captioned photo, and what all readers do with the captions they find."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from sparta.errors import InputError

log = logging.getLogger(__name__)
# Blanks, control characters, soft hyphens, zero-width characters and marks of direction.
_BLANKS = "".join(
    map(
        chr,
        chain(
            range(0x21),
            range(0x7F, 0xA1),
            (0xAD, 0x61C, 0x1680, 0x180E, 0x3000, 0xFEFF),
            range(0x2000, 0x2010),
            range(0x2028, 0x2030),
            range(0x205F, 0x2070),
        ),
    )
)
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol, by Unicode, that show nothing


@dataclass(frozen=True)
class CaptionedPhoto:
    """A photo's id in the feature store, its split and its captions."""

    image_id: str
    split: str
    captions: tuple[str, ...]


def tidy(text: str) -> str:
    """A text without blanks and invisible characters around it; "" if it shows nothing."""
    shows = any(unicodedata.category(c)[0] in "LNPS" and c not in _FILLERS for c in text)
    return text.strip(_BLANKS) if shows else ""


def captioned(path: Path, found: Iterable[tuple[str, CaptionedPhoto]]) -> list[CaptionedPhoto]:
    """The photos of a file that have captions, tidied; a warning counts what is left out.

    Args:
        path: of the file, for the warning.
        found: place in the file and photo, with the captions as the file has them.

    Raises:
        InputError: if an image appears twice, or a text is not one that UTF-8 can hold.
    """
    kept: dict[str, CaptionedPhoto] = {}
    blank = 0
    for where, photo in found:
        if photo.image_id in kept:
            raise InputError(f"{where}: image {photo.image_id!r} appears twice")
        try:
            "".join([photo.image_id, photo.split, *photo.captions]).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise InputError(
                f"{where}: half of a surrogate pair ({half}) is no character"
            ) from error
        texts = tuple(filter(None, map(tidy, photo.captions)))
        blank += len(photo.captions) - len(texts)
        kept[photo.image_id] = replace(photo, captions=texts)
    photos = [photo for photo in kept.values() if photo.captions]
    without = len(kept) - len(photos)
    if left := [
        f"{n:,} {what}"
        for n, what in ((without, "photos without captions"), (blank, "blank captions"))
        if n
    ]:
        log.warning("%s: %s left out", path, " and ".join(left))
    return photos

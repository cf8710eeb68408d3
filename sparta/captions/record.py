"""A captioned photo, and what all readers do with files and with the captions they find."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from sparta.errors import InputError
from sparta.features.readers.base import unreadable

Model = TypeVar("Model", bound=BaseModel)
SPLIT = "train"  # of all photos, where a file has no splits
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


# ---- JSON ----------------------------------------------------------------------------------------


def load_json(path: Path) -> Any:
    """Parse a whole file.

    Raises:
        InputError: if it cannot be read or is not JSON; the text names the line.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deep
        raise InputError(f"{path}: not JSON, or cut: {error}") from error


def validate(model: type[Model], content: object, where: str) -> Model:
    """Check parsed JSON against a model.

    Raises:
        InputError: naming the first field that does not fit.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise InputError(f"{where}: {field}: {first['msg']}") from error

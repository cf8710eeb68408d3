"""A captioned photo, and what all readers do with files and with the captions they find."""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, TypeAdapter

from sparta.errors import InputError
from sparta.json_values import JsonValue
from sparta.readers.base import parse, unreadable

Model = TypeVar("Model", bound=BaseModel)
SPLIT = "train"  # of all photos, where a file has no splits
log = logging.getLogger(__name__)
# Blanks, control characters, soft hyphens, zero-width characters and marks of direction.
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")
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
    seen = [at for at, char in enumerate(text) if unicodedata.category(char) not in _UNSEEN]
    return text[seen[0] : seen[-1] + 1] if shows else ""


def captioned(path: Path, found: Iterable[tuple[str, CaptionedPhoto]]) -> list[CaptionedPhoto]:
    """The photos of a file that have captions, tidied; a warning counts what is left out."""
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
    """A caption of a photo."""

    where: str
    image: str
    number: str
    text: str


def by_photo(path: Path, lines: Iterable[CaptionLine]) -> list[CaptionedPhoto]:
    """Photos in order of their first lines, with all their captions in order of the file."""
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


def load_json(path: Path) -> JsonValue:
    """Parse a whole file."""
    try:
        content: JsonValue = json.loads(path.read_bytes())
        return content
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deep
        raise InputError(f"{path}: not JSON, or cut: {error}") from error


def validate(model: type[Model], content: JsonValue, where: str) -> Model:
    """Check parsed JSON against a model."""
    return parse(TypeAdapter(model), content, where, "the line")


# ---- photos among stored images whose ids are written otherwise ----------------------------------

SHOWN = 3  # ids in a message


def _path(image_id: str) -> str:
    return re.sub(r"\.[A-Za-z]\w{1,4}$", "", image_id.replace("\\", "/").removeprefix("./"))


def _name(image_id: str) -> str:
    return image_id.replace("\\", "/").rpartition("/")[2]


def _number(image_id: str) -> str:
    """The image number of COCO, in the names of 2014, those of 2017, or by itself; else ""."""
    found = re.fullmatch(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)", _path(_name(image_id)), re.IGNORECASE)
    return found[1] if found else ""


# What two ids of one image have in common, from the surest to the vaguest.
FORMS: dict[str, Callable[[str], str]] = {
    "path without suffix": _path,
    "file name": _name,
    "file name without suffix": lambda image_id: _path(_name(image_id)),
    "number": _number,
}


def stored_ids(wanted: Iterable[str], stored: Collection[str], where: str) -> dict[str, str]:
    """The stored id of each photo that is stored; a warning says by what they were matched.

    Ids are compared as they are. Only if no photo is stored under its own id, they are compared by
    each of `FORMS` in turn, until one finds a photo.

    Raises:
        InputError: if one photo could be either of two images, or two photos the same image.
    """
    wanted = list(dict.fromkeys(wanted))
    exact = {image_id: image_id for image_id in wanted if image_id in stored}
    if exact or not wanted:
        return exact
    stored = sorted(stored)
    for form, key in FORMS.items():
        images: dict[str, list[str]] = defaultdict(list)
        for image_id in stored:
            images[key(image_id)].append(image_id)
        photos: dict[str, list[str]] = defaultdict(list)
        for image_id in wanted:
            if key(image_id) and key(image_id) in images:
                photos[key(image_id)].append(image_id)
        for shared, own in photos.items():
            if len(own) > 1 or len(images[shared]) > 1:
                raise InputError(
                    f"{where}: it is unclear which photo is which: by {form}, the captions' "
                    f"{some_of(own)} would be {some_of(images[shared])}; rename or leave out one"
                )
        if photos:
            _tell(where, form)
            return {own[0]: images[shared][0] for shared, own in photos.items()}
    return {}


def as_stored(
    photos: Sequence[CaptionedPhoto], stored: Collection[str], where: str
) -> list[CaptionedPhoto]:
    """Photos under their stored ids, as `stored_ids` finds them; others keep their own."""
    found = stored_ids((photo.image_id for photo in photos), stored, where)
    return [replace(photo, image_id=found.get(photo.image_id, photo.image_id)) for photo in photos]


def some_of(ids: Iterable[str | int]) -> str:
    """The first ids, for a message."""
    first = list(islice(ids, SHOWN + 1))
    return ", ".join([*map(repr, first[:SHOWN]), *["…"] * (len(first) > SHOWN)]) or "none"


@cache  # once a process, however many folds and models there are
def _tell(where: str, form: str) -> None:
    log.warning("%s: captions and images are matched by %s", where, form)

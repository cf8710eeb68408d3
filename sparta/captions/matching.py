"""Finding captioned photos among stored images whose ids are written otherwise."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError

log = logging.getLogger(__name__)
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

    Args:
        wanted: ids of captioned photos.
        stored: ids of images.
        where: folder of those, for messages.

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


def some_of(ids: Iterable[object]) -> str:
    """The first ids, for a message."""
    first = list(islice(ids, SHOWN + 1))
    return ", ".join([*map(repr, first[:SHOWN]), *["…"] * (len(first) > SHOWN)]) or "none"


@cache  # once a process, however many folds and models there are
def _tell(where: str, form: str) -> None:
    log.warning("%s: captions and images are matched by %s", where, form)

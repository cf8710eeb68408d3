"""The photos to measure on: those of a protocol, without those that are missing.

The protocols of the field of image-text retrieval:

- all: every photo with all its captions, however many.
- coco-5k: COCO's 5,000 test (or validation) photos, the first five captions of each.
- coco-1k: the same in five folds of 1,000 consecutive photos, the figures averaged: what VSE
  papers call COCO 1K. The folds follow the order of the captions file, which must be that of
  the split file; sorted by id the folds would differ.
- oscar-1k: the photos of the fixed list of Oscar's 1K evaluation, five captions each.
- flickr30k-1k: Flickr30K's 1,000 test (or validation) photos, five captions each.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from sparta.captions.matching import some_of, stored_ids
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.extract.photos import default_workers
from sparta.features.readers.base import read_lines
from sparta.features.store import FeatureStore
from sparta.vse.photo_folder import PhotoFolder

PHOTOS = {"coco-5k": 5000, "coco-1k": 5000, "oscar-1k": 1000, "flickr30k-1k": 1000}
PROTOCOLS = ("all", *PHOTOS)
CAPTIONS = 5  # per photo in these protocols; published figures ignore the sixth captions of COCO
FOLD = 1000  # photos

Store = FeatureStore | PhotoFolder

log = logging.getLogger(__name__)


def choose(
    protocol: str, photos: Sequence[CaptionedPhoto], images: Path | None = None
) -> list[list[CaptionedPhoto]]:
    """The photos of each fold of a protocol, with the captions that take part.

    Args:
        protocol: one of `PROTOCOLS`.
        photos: of a split, in the order of its file.
        images: for oscar-1k, a file of image ids or of COCO's numbers for them, one a line.

    Raises:
        InputError: if the protocol is unknown, or not defined on these photos or captions.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol {protocol!r} is not one of: {', '.join(PROTOCOLS)}")
    if (images is not None) != (protocol == "oscar-1k"):
        raise InputError("--images FILE goes with --protocol oscar-1k, and only with it")
    if images is not None:
        photos = _listed(photos, images)
    if protocol == "all":
        return [list(photos)]
    if len(photos) != PHOTOS[protocol]:
        raise InputError(
            f"--protocol {protocol} is defined on {PHOTOS[protocol]:,} photos, here are "
            f"{len(photos):,}: check --captions and --split, or choose --protocol all"
        )
    photos = [_first_captions(photo, protocol) for photo in photos]
    size = FOLD if protocol == "coco-1k" else len(photos)
    return [photos[start : start + size] for start in range(0, len(photos), size)]


def _listed(photos: Sequence[CaptionedPhoto], path: Path) -> list[CaptionedPhoto]:
    known = {str(coco_number(photo.image_id)): photo for photo in photos}
    known |= {photo.image_id: photo for photo in photos}
    listed = {}
    for number, line in enumerate(map(str.strip, read_lines(path)), 1):
        if line not in known:
            raise InputError(f"{path}, line {number}: {line!r} is no image of the split")
        listed[known[line].image_id] = known[line]
    return list(listed.values())


def coco_number(image_id: str) -> int | None:
    """COCO's image number at the end of a file name, None without one."""
    digits = re.search(r"\d+$", PurePosixPath(image_id).stem)
    return int(digits[0]) if digits else None


def _first_captions(photo: CaptionedPhoto, protocol: str) -> CaptionedPhoto:
    if len(photo.captions) < CAPTIONS:
        raise InputError(
            f"--protocol {protocol} takes {CAPTIONS} captions of every photo, {photo.image_id!r} "
            f"has {len(photo.captions)}; choose --protocol all"
        )
    return replace(photo, captions=photo.captions[:CAPTIONS])


# ---- missing photos ------------------------------------------------------------------------------


def missing_of(
    wanted: Sequence[str],
    there: Container[str],
    others: Iterable[str],
    where: object,
    allowed: bool | None,
    what: str = "captioned photos",
    remedy: str = "choose a --split that it has",
) -> set[str]:
    """The ids that are wanted and not there.

    Args:
        wanted: ids.
        there: those of them that there are.
        others: ids that there are, for the message.
        where: they should be.
        allowed: --allow-missing; None for a command without this option.
        what: they are of.
        remedy: what else the user may do.

    Raises:
        InputError: if some are missing and that is not allowed, or all are; it names three of them
            beside three others.
    """
    missing = [one for one in wanted if one not in there]
    if missing and not (allowed and len(missing) < len(wanted)):
        if len(missing) == len(wanted):
            remedy += ", or name the photos by its ids"
        elif allowed is not None:
            remedy += ", or leave the missing ones out with --allow-missing"
        raise InputError(
            f"{where} lacks {len(missing):,} of the {len(wanted):,} {what}: {some_of(missing)}; "
            f"it has {some_of(others)}: {remedy}"
        )
    return set(missing)


def missing_in(
    stores: Iterable[Store],
    wanted: Sequence[str],
    allowed: bool | None,
    what: str = "captioned photos",
) -> set[str]:
    """The photos that at least one store lacks, found as `stored_ids` does; see `missing_of`.

    Args:
        stores: of features, or of photos; those that cannot be read count as missing.
        wanted: ids of the photos.
        allowed: see `missing_of`.
        what: see `missing_of`.
    """
    missing = set[str]()
    for folder, store in {store.folder: store for store in stores}.items():
        own = stored_ids(wanted, set(store.ids), str(folder))
        readable = _readable(store, {*own.values()})
        there = {one for one in own if own[one] in readable}
        missing |= missing_of(wanted, there, store.ids, folder, allowed, what)
    where = "what all --features have in common"
    return missing_of(wanted, {*wanted} - missing, (), where, allowed, what)


def _readable(store: Store, ids: set[str]) -> set[str]:
    """The ids of a store without those of photos that cannot be read."""
    if isinstance(store, PhotoFolder) and ids:
        photos = PhotoFolder(store.folder, store.source, ids)
        for one in photos.unreadable(default_workers()):
            log.warning("%s: %s", store.folder / one.image_id, one.reason)
            ids.remove(one.image_id)
    return ids

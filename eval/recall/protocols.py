"""The field's image-text retrieval protocols: which photos and captions take part, in which folds.

- all: every photo with all its captions, however many.
- coco-5k: COCO's 5,000 test (or validation) photos, the first five captions of each.
- coco-1k: the same in five folds of 1,000 consecutive photos, the figures averaged: what VSE
  papers call COCO 1K. The folds follow the order of the captions file, which must be that of
  the split file; sorted by id the folds would differ.
- oscar-1k: the photos of the fixed list of Oscar's 1K evaluation, five captions each.
- flickr30k-1k: Flickr30K's 1,000 test (or validation) photos, five captions each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from eval.recall.missing import Store, check_missing
from sparta.captions.matching import stored_ids
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

PHOTOS = {"coco-5k": 5000, "coco-1k": 5000, "oscar-1k": 1000, "flickr30k-1k": 1000}
PROTOCOLS = ("all", *PHOTOS)
CAPTIONS = 5  # per photo in these protocols; published figures ignore the sixth captions of COCO
FOLD = 1000  # photos


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
    lines = path.read_text(encoding="utf-8-sig").rstrip("\n").splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip() not in known:
            raise InputError(f"{path}, line {number}: {line.strip()!r} is no image of the split")
        photo = known[line.strip()]
        listed[photo.image_id] = photo
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


@dataclass(frozen=True)
class Images:
    """Some images of a store, in a given order.

    Attributes:
        store: their features, or the photos themselves.
        rows: of the store.
    """

    store: Store
    rows: Sequence[int]

    @classmethod
    def of(cls, store: Store, image_ids: Sequence[str]) -> Images:
        """Find images by id, as `stored_ids` does.

        Raises:
            InputError: if the store lacks some of them.
        """
        known = {image_id: row for row, image_id in enumerate(store.ids)}
        found = stored_ids(image_ids, known, str(store.folder))
        missing = [image_id for image_id in image_ids if image_id not in found]
        check_missing(missing, len(image_ids), store.ids, "captioned photos", store.folder, None)
        return cls(store, [known[found[image_id]] for image_id in image_ids])

    def __len__(self) -> int:
        return len(self.rows)

    def batches(
        self, size: int, progress: Progress = no_progress
    ) -> Iterator[tuple[slice, list[Any]]]:
        """The images, a batch at a time, and their places among all of them.

        Each is an `ImageFeatures`, or of photos [side, side, 3] uint8. Progress is reported of the
        stage "images".
        """
        for start in range(0, len(self), size):
            place = slice(start, min(start + size, len(self)))
            yield place, [self.store[row] for row in self.rows[place]]
            progress("images", place.stop, len(self))

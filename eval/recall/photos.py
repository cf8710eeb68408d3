"""The photos to measure on: of a protocol or a run, without those that are missing.

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

import json
import logging
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.captions.record import some_of, stored_ids
from sparta.errors import InputError
from sparta.extract.photos import default_workers
from sparta.features.store import FeatureStore
from sparta.files import read_yaml
from sparta.json_values import Json
from sparta.readers.base import read_lines
from sparta.vse.encoders import PhotoFolder

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

    Photos are those of a split, in the order of its file. For oscar-1k, images is a file of image
    ids or of COCO's numbers for them, one a line.

    Raises:
        InputError: if the protocol is unknown, or not defined on these photos or captions.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol {protocol!r} is not one of: {', '.join(PROTOCOLS)}")
    if (images is not None) != (protocol == "oscar-1k"):
        raise InputError("--image-list FILE goes with --protocol oscar-1k, and only with it")
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
    where: Path | str,
    allowed: bool | None,
    what: str = "captioned photos",
    remedy: str = "choose a --split that it has",
) -> set[str]:
    """The ids that are wanted and not there.

    `where` they should be, `what` they are of, three of the others that there are, and the `remedy`
    are for the message. `allowed` is --allow-missing, None for a command without this option.

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
    """The photos that at least one store lacks, found as `stored_ids` does; see `missing_of`."""
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


# ---- a run of `sparta train`: its own features and held-out photos -------------------------------

MODEL, SETTINGS, STORES, HELD_OUT = "model", "config.yaml", "features.json", "held-out.jsonl"
SPLIT = "val"


@dataclass(frozen=True)
class Evaluation:
    """Models, what they read, and the photos to measure them on."""

    models: list[str]  # folders or hub names
    features: list[Path]  # feature stores or photos, one for each model or one for all
    captions: Path  # a file or folder
    split: str  # of the captions
    all_captions: Path  # the captions of other splits

    @classmethod
    def of(
        cls,
        models: Sequence[str],
        features: Sequence[Path],
        captions: Path | None,
        split: str | None,
    ) -> Evaluation:
        """Complete what was given by what the runs among the models record.

        Models are folders of runs or of models, or hub names. Without captions, the photos are the
        run's: of `split`, or without one those it held out. `split` is "val" by default.

        Raises:
            InputError: if a run has no model yet, or something is neither given nor recorded.
        """
        runs = {name: Path(name) for name in models if (Path(name) / SETTINGS).is_file()}
        for run in runs.values():
            if not (run / MODEL).is_dir():
                raise InputError(f"{run} has no model yet: `sparta train … --out {run} --resume`")
        folders = [*features]
        for name in models if not folders else ():
            if name not in runs:
                raise InputError(
                    f"--features: {name} is no run of sparta train: give the features that the "
                    "model was trained on"
                )
            folders.append(_features(runs[name]))
        names = [str(runs[name] / MODEL) if name in runs else name for name in models]
        if captions is not None:
            split = SPLIT if split is None else split
            return cls(names, folders, captions, split, captions)
        data = next(map(_data, runs.values()), {})
        if not data.get("captions"):
            raise InputError("--captions: give captioned photos")
        whole = Path(data["captions"])
        if split is not None:
            return cls(names, folders, whole, split, whole)
        own = [run / HELD_OUT for run in runs.values()]
        if not all(path.is_file() and path.stat().st_size for path in own):
            raise InputError(f"{min(runs)} held out no photos: give --split, or --captions, too")
        if len({path.read_bytes() for path in own}) > 1:
            raise InputError("the runs held out different photos: give --split, or --captions, too")
        return cls(names, folders, own[0], SPLIT, whole)

    def photos(self) -> list[CaptionedPhoto]:
        """The captioned photos to measure on."""
        return read_captions(self.captions, self.split)

    def others(self, split: str, store: Store) -> list[str]:
        """Ids of the photos of another split, of which none is measured.

        A run lists its held-out photos under the ids of its features: `store` tells which they are.
        """
        stored, where = set(store.ids), str(store.folder)
        own = stored_ids((photo.image_id for photo in self.photos()), stored, where)
        found = [photo.image_id for photo in read_captions(self.all_captions, split)]
        others, measured = stored_ids(found, stored, where), {*own.values()}
        return [one for one in found if others.get(one) not in measured]


def _data(run: Path) -> Json:
    data = read_yaml(run / SETTINGS).get("data")
    return data if isinstance(data, dict) else {}


def _features(run: Path) -> Path:
    """The plain features of a run, or the photos that its model reads itself."""
    if (run / STORES).is_file():
        stores = json.loads((run / STORES).read_text(encoding="utf-8"))
        return Path(stores[0]["folder"])
    return Path(str(_data(run).get("photos")))

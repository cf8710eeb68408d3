"""What a training run reads: feature stores, opened or extracted, and captioned photos, split."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.captions.record import as_stored
from sparta.console import Console
from sparta.errors import InputError
from sparta.extract.job import EXTRACT_STAGES, extract_augmented
from sparta.extract.photos import list_photos, listing_hash
from sparta.features.store import FeatureStore
from sparta.files import writing
from sparta.progress import progress_bars
from sparta.vse.encoders import PhotoFolder
from training.run_config import DataConfig

RECORD = "features.json"
VALIDATION = ("val", "dev")  # names of splits
SHARE, MOST = 10, 1000  # held-out photos: one of so many, and at most
log = logging.getLogger(__name__)


class PhotoList(NamedTuple):
    """The photos of a folder, or those that all feature stores of a run have."""

    folder: Path
    ids: list[str]  # rising

    @classmethod
    def of(cls, images: Sequence[FeatureStore | PhotoFolder]) -> PhotoList:
        """Those that every store has."""
        common = set(images[0].ids).intersection(*(store.ids for store in images[1:]))
        return cls(images[0].folder, sorted(common))


def open_stores(config: DataConfig, out: Path) -> list[FeatureStore]:
    """Open the run's feature stores, or extract them from its photos."""
    if config.photos is not None and not config.features:
        return extract_for_training(config, out)
    if config.photos is not None or not config.features:
        raise InputError(
            "data.features: give feature stores (--set data.features=[DIR]), or else data.photos "
            "and data.backbone"
        )
    stores = [FeatureStore.open(folder) for folder in config.features]
    for store in stores[1:]:
        if different := stores[0].source.differences(store.source):
            raise InputError(
                f"{store.folder} and {stores[0].folder} hold features of different sources: "
                f"{different[0]}"
            )
    return stores


def record_stores(stores: Sequence[FeatureStore], out: Path, resume: bool) -> None:
    """Write folders and fingerprints of the run's stores to `out/features.json`."""
    path = out / RECORD
    now = [{"folder": str(s.folder.absolute()), "fingerprint": s.fingerprint} for s in stores]
    if resume and path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        for old, new in zip_longest(before, now, fillvalue={"folder": "none", "fingerprint": ""}):
            if old["fingerprint"] != new["fingerprint"]:
                raise InputError(
                    f"{path}: the run began with the features in {old['folder']}, and "
                    f"{new['folder']} holds others: restore them, or train in another --out"
                )
    path.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")


def split_photos(
    config: DataConfig, there: PhotoList, seed: int
) -> tuple[list[CaptionedPhoto], list[CaptionedPhoto]]:
    """Training photos and held-out photos, each sorted by id and among those of the run.

    The seed chooses the held-out photos.
    """
    if config.captions is None:
        raise InputError("data.captions: give a captions.jsonl (--set data.captions=FILE)")
    if not config.captions.exists():
        raise InputError(f"data.captions: {config.captions} does not exist")
    photos = _present(read_captions(config.captions, config.split), there, config.captions)
    held_out = _validation_split(config, there)
    if not held_out:
        photos, held_out = _divided(photos, config.validation_photos, seed)
    return photos, held_out


def _validation_split(config: DataConfig, there: PhotoList) -> list[CaptionedPhoto]:
    """The photos of the split to validate on; none if there is no such split."""
    assert config.captions is not None
    if config.validation_split:
        photos = read_captions(config.captions, config.validation_split)
        return _present(photos, there, config.captions)
    if config.validation_photos is not None or config.captions.is_dir():
        return []
    known, splits = set(there.ids), {config.split, *VALIDATION}
    # Beside the training photos, whose ids tell how the others are written.
    own = [photo for photo in read_captions(config.captions) if photo.split in splits]
    others = as_stored(own, known, str(there.folder))
    for name in VALIDATION:
        found = [photo for photo in others if photo.split == name and photo.image_id in known]
        if found and name != config.split:
            return sorted(found, key=lambda photo: photo.image_id)
    return []


def _divided(
    photos: list[CaptionedPhoto], number: int | None, seed: int
) -> tuple[list[CaptionedPhoto], list[CaptionedPhoto]]:
    """Training photos, and the number of held-out photos; None for a tenth, at most 1,000."""
    number = min(len(photos) // SHARE, MOST) if number is None else number
    if number and number >= len(photos):
        raise InputError(
            f"data.validation_photos: holding out {number} of {len(photos)} photos leaves none to "
            "train on"
        )
    order = np.random.default_rng(seed).permutation(len(photos))
    chosen = set(order[:number].tolist())
    return (
        [photo for i, photo in enumerate(photos) if i not in chosen],
        [photo for i, photo in enumerate(photos) if i in chosen],
    )


def _present(
    photos: list[CaptionedPhoto], there: PhotoList, captions: Path
) -> list[CaptionedPhoto]:
    known = set(there.ids)
    photos = as_stored(photos, known, str(there.folder))
    present = sorted((p for p in photos if p.image_id in known), key=lambda p: p.image_id)
    if photos and not present:
        raise InputError(
            f"{captions}: no photo of split {photos[0].split!r} is in {there.folder}: the "
            f"captions have ids like {photos[0].image_id!r}, the photos like "
            f"{next(iter(there.ids), 'none')!r}"
        )
    if missing := len(photos) - len(present):
        what = "%d of %d captioned photos are not in %s: left out"
        log.warning(what, missing, len(photos), there.folder)
    return present


def extract_for_training(config: DataConfig, out: Path) -> list[FeatureStore]:
    """Extract the photos of `config`, one store for each augmentation; a killed run continues.

    Runs in the same folder share the stores beside them, in `features_folder`, if they have the
    same photos, backbone, grid and size; one with more augmentations adds only those that are
    missing. Only one process extracts at a time.
    """
    assert config.photos is not None
    folder = features_folder(config, out)
    with writing(folder, wait=True), progress_bars(EXTRACT_STAGES, Console()) as progress:
        return extract_augmented(
            config.photos,
            folder,
            config.backbone,
            config.augmentations,
            grid=config.grid,
            image_size=config.image_size,
            progress=progress,
        )


def features_folder(config: DataConfig, out: Path) -> Path:
    """The folder of a run's extracted stores, named after all that decides their content.

    Other names or sizes of files in the folder of photos give another folder.
    """
    photos, backbone, grid = config.photos, config.backbone, config.grid
    assert photos is not None and backbone is not None
    inputs = [str(photos.resolve()), listing_hash(list_photos(photos)), backbone, grid]
    inputs += [config.image_size] if config.image_size else []  # without it, as in former versions
    digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:8]
    network = Path(backbone.partition("@")[0]).name + (f"-{grid}x{grid}" if grid else "")
    return out.absolute().parent / "features" / f"{network}-{digest}"

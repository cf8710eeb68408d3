"""Features of a folder of photos for training: extracted once, beside the runs that share them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console

from sparta.errors import InputError
from sparta.features.extract.augmented_stores import extract_augmented
from sparta.features.extract.job import EXTRACT_STAGES
from sparta.features.extract.listing import file_stamps, listing_hash
from sparta.features.extract.photos import find_photos
from sparta.features.store import FeatureStore
from sparta.progress import progress_bars
from training.run_config import DataConfig

log = logging.getLogger(__name__)


def extract_for_training(config: DataConfig, out: Path) -> list[FeatureStore]:
    """Extract the photos of `config`, one store for each augmentation; a killed run continues.

    Runs in the same folder share the stores if they have the same photos, backbone and grid; one
    with more augmentations adds only those that are missing. Only one process extracts at a time.

    Args:
        config: with `photos`.
        out: folder of the run. The stores are beside it, in `features/` (`features_folder`).

    Raises:
        InputError: if no backbone is configured, or as `extract_photos` does.
    """
    assert config.photos is not None
    if config.backbone is None:
        raise InputError("data.backbone: give the backbone that extracts features from data.photos")
    folder = features_folder(config.photos, config.backbone, config.grid, out)
    bars = progress_bars(EXTRACT_STAGES, Console())
    with _exclusive(folder), bars as progress:
        return extract_augmented(
            config.photos,
            folder,
            config.backbone,
            config.augmentations,
            grid=config.grid,
            progress=progress,
        )


def features_folder(photos: Path, backbone: str, grid: int | None, out: Path) -> Path:
    """The folder of a run's extracted stores, named after the backbone, the grid and the photos.

    Args:
        photos: folder; other names or sizes of files in it give another folder.
        backbone: hub name or folder of a vision network, or "pixels".
        grid: cells on a side that the backbone's cells are averaged to; None for all of them.
        out: folder of the run.

    Raises:
        InputError: if there are no photos.
    """
    listing = listing_hash(file_stamps(photos, find_photos(photos)))
    inputs = [str(photos.resolve()), listing, backbone, grid]
    digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:8]
    network = Path(backbone).name + (f"-{grid}x{grid}" if grid else "")
    return out.absolute().parent / "features" / f"{network}-{digest}"


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other process extracts into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        log.warning("waiting for another run that extracts features into %s", folder)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()

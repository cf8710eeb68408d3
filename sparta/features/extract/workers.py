"""Where photos are decoded and become regions: in this process, or on the machines of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sparta.addresses import is_remote
from sparta.ahead import work_ahead
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.decode_pool import Decoded, decode_all, default_workers
from sparta.features.extract.extractor import Extractor
from sparta.features.extract.photos import Photo
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.skipped import Skipped

# Of a batch of photos: those that can be used, and the others, each with its reason.
Regions: TypeAlias = tuple[list[ImageFeatures], list[Skipped]]
Batches: TypeAlias = list[list[str]]  # image ids


@dataclass(frozen=True)
class PhotoWorker:
    """Turns photos of a folder into regions.

    Attributes:
        extractor: which does it.
        photos: their folder.
        augmentation: of each photo.
        processes: that decode; None for one a core, 0 for none.
    """

    extractor: Extractor
    photos: Path
    augmentation: Augmentation
    processes: int | None

    def __call__(self, batches: Iterable[list[str]]) -> Generator[Regions]:
        """The regions of batches of photos, in order; later ones are decoded meanwhile."""
        decoder = self.extractor.decoder(self.photos, self.augmentation)
        count = default_workers() if self.processes is None else self.processes
        with (
            closing(decode_all(decoder, batches, count)) as decoded,
            closing(work_ahead(partial(_regions, self.extractor), decoded)) as computed,
        ):
            yield from computed


def extract_on(
    cluster: Cluster, worker: PhotoWorker, load: Callable[[], Extractor], shards: list[Batches]
) -> Generator[Regions]:
    """The regions of all batches of some shards, computed by the workers of a cluster.

    Args:
        cluster: its machines have the photos under the same path.
        worker: of this process.
        load: loads the same extractor on any machine.
        shards: of each the batches; a shard is computed by one worker.
    """
    source, about = worker.extractor.source, (worker.photos, worker.augmentation)
    open_worker = partial(_open_worker, load, source, *about, worker.processes)
    for found in cluster.map(open_worker, _extract_shard, shards):
        yield from found


def _open_worker(
    load: Callable[[], Extractor],
    source: FeatureSource,
    photos: Path,
    augmentation: Augmentation,
    processes: int | None,
) -> PhotoWorker:
    """A worker of a cluster.

    Raises:
        InputError: if the networks cannot be used there, or would make other features.
    """
    extractor = load()
    if differences := source.differences(extractor.source):
        raise InputError(
            "the features would be others than on the machine that asked (wanted against found): "
            + "; ".join(differences)
        )
    return PhotoWorker(extractor, photos, augmentation, processes)


def _extract_shard(worker: PhotoWorker, batches: Batches) -> list[Regions]:
    """The regions of a shard's batches.

    Raises:
        InputError: if the machine has none of the photos, whose absence would be taken for damage.
    """
    ids = list(chain.from_iterable(batches))
    if ids and all(_is_missing(worker.photos / image_id) for image_id in ids):
        raise InputError(
            f"{worker.photos} has none of the photos: give a folder that all machines share"
        )
    return list(worker(batches))


def _is_missing(path: Path) -> bool:
    """Whether nothing is there, not even a link that leads nowhere."""
    if is_remote(path):
        return not path.exists()
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _regions(extractor: Extractor, batch: Decoded) -> Regions:
    photos = [entry for entry in batch if isinstance(entry, Photo)]
    skipped = [entry for entry in batch if isinstance(entry, Skipped)]
    images = []
    for image in extractor(photos) if photos else []:
        if np.isfinite(image.features).all():
            images.append(image)
        else:
            skipped.append(Skipped(image.image_id, "the network's output exceeds float16"))
    return images, skipped

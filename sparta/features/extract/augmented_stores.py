"""Feature stores of the same photos, one per test-time augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparta.cluster import Cluster
from sparta.features.extract.detector_settings import DetectorSettings
from sparta.features.extract.job import extract_photos
from sparta.features.store import FeatureStore
from sparta.progress import Notice, Progress, no_notice, no_progress


def augmentation_names(count: int) -> list[str]:
    """The first `count` augmentations: plain, flip, crop:1, crop:2, …; see `Augmentation`."""
    crops = [f"crop:{seed}" for seed in range(1, count - 1)]
    return ["plain", "flip", *crops][:count]


def extract_augmented(
    photos: Path,
    out: Path,
    backbone: str | None,
    count: int,
    *,
    ids: Sequence[str] | None = None,
    detection: DetectorSettings | None = None,
    image_size: int | None = None,
    labels: int = 0,
    grid: int | None = None,
    device: str = "auto",
    cluster: Cluster | None = None,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> list[FeatureStore]:
    """Extract a folder of photos `count` times, into `out/plain`, `out/flip`, …; reuses stores.

    Args:
        photos: folder, searched at any depth.
        out: folder of the stores.
        backbone: hub name or folder of a vision network, or "pixels"; None where a detector
            gives the vectors too.
        count: of augmentations, the plain photo included.
        ids: of the photos to take, sorted; None for all that the folder has.
        detection: the detector whose regions to take, None for a grid.
        image_size: side of the square the photos are stretched to; None for the backbone's own.
        labels: classes of the backbone's classifier that name the whole photo.
        grid: cells on a side that the backbone's cells are averaged to; None for all of them.
        device: "auto" takes a GPU if there is one.
        cluster: as for `extract_photos`.
        progress: as for `extract_photos`; photos are counted over all augmentations.
        notice: as for `extract_photos`, of the first augmentation.

    Raises:
        InputError: as `extract_photos` does.
    """
    names = augmentation_names(count)
    for number, name in enumerate(names):

        def overall(stage: str, done: int, total: int, before: int = number) -> None:
            if stage == "extract":
                done, total = before * total + done, len(names) * total
            progress(stage, done, total)

        extract_photos(
            photos,
            out / name,
            backbone,
            ids=ids,
            detection=detection,
            image_size=image_size,
            labels=labels,
            grid=grid,
            augmentation=name,
            device=device,
            cluster=cluster,
            progress=overall,
            notice=no_notice if number else notice,
        )
    return [FeatureStore.open(out / name) for name in names]

"""What turns photos into regions: a detector, or the grid of a backbone."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.detector_settings import DetectorSettings
from sparta.features.extract.grid import GridRegions
from sparta.features.extract.networks.load import load_encoder
from sparta.features.extract.networks.pooled_grid import PooledGrid
from sparta.features.extract.photos import Decoder, Photo
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.progress import Progress, no_progress


class Extractor(Protocol):
    """Turns the photos that its decoder has read into regions, some for each.

    Attributes:
        source: what makes the features.
        batch_size: photos per pass.
    """

    source: FeatureSource
    batch_size: int

    def decoder(self, folder: Path, augmentation: Augmentation) -> Decoder: ...  # noqa: D102

    def __call__(self, photos: list[Photo]) -> list[ImageFeatures]: ...  # noqa: D102


def load_extractor(
    backbone: str | None,
    detection: DetectorSettings | None,
    image_size: int | None = None,
    labels: int = 0,
    device: str = "auto",
    grid: int | None = None,
    progress: Progress = no_progress,
) -> Extractor:
    """A detector's regions, or the cells of a backbone's grid; progress of the stage "convert".

    Raises:
        InputError: if neither is named, or one cannot be used.
    """
    if backbone is None and (image_size or labels):
        raise InputError("--image-size and --labels are for a --backbone: name it too")
    encoder = load_encoder(backbone, image_size, labels, device, progress) if backbone else None
    if detection is not None:
        if grid:
            raise InputError("--grid is for cells of a --backbone: leave it out with --detector")
        from sparta.features.extract.regions import DetectorRegions

        return DetectorRegions(detection, encoder, device)
    if encoder is None:
        raise InputError("--backbone: name what turns the photos into features (or --detector)")
    if grid and encoder.grid != (grid, grid):
        encoder = PooledGrid(encoder, grid)
    return GridRegions(encoder)


def load_extractor_of(source: FeatureSource, device: str = "auto") -> Extractor:
    """What made the features of a source, loaded again.

    Raises:
        InputError: if they cannot be made from photos here, or would now be others.
    """
    detection = DetectorSettings.of(source)
    if source.kind == "region" and detection is None:
        raise InputError(
            f"regions of {source.backbone} come from other software and cannot be made from photos"
        )
    extractor = load_extractor(
        source.backbone or None,
        detection,
        source.image_size or None,
        source.label_count,
        device,
        source.extra.get("grid"),
    )
    if differences := source.differences(extractor.source):
        raise InputError(
            f"the features of these photos would differ from the model's (the model's against "
            f"those found): {'; '.join(differences)}"
        )
    return extractor

"""Which of a detector's regions a store holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import FeatureSource

REGIONS = 36


@dataclass(frozen=True)
class DetectorSettings:
    """Which of a detector's regions to keep, and whether to name their colours.

    Attributes:
        detector: hub name or folder of a checkpoint.
        regions: how many to keep at most, highest confidence first; the whole photo is added.
        threshold: confidence a region needs.
        colours: whether regions get a colour as their attribute.
    """

    detector: str
    regions: int = REGIONS
    threshold: float = 0.05
    colours: bool = False

    @classmethod
    def of(cls, source: FeatureSource) -> DetectorSettings | None:
        """What made a store's regions; None if no detector did."""
        if not source.detector:
            return None
        extra = source.extra
        return cls(source.detector, extra["regions"], extra["threshold"], extra["colours"])

    def kept(self, confidences: NDArray[np.float32]) -> NDArray[np.int64]:
        """Rows of the regions to keep, by decreasing confidence, ties in their order."""
        order = np.argsort(-confidences, kind="stable")[: self.regions]
        return order[confidences[order] >= self.threshold]


def extract_command(source: FeatureSource) -> str:
    """The command line that makes features of a source."""
    options = f"--image-size {source.image_size} --labels {source.label_count}"
    if "grid" in source.extra:
        options += f" --grid {source.extra['grid']}"
    pooled = f"--backbone {source.backbone} {options}"
    detection = DetectorSettings.of(source)
    if detection is None:
        if source.kind == "region":
            return f"sparta import of files of {source.backbone}"
        return f"sparta extract PHOTOS {pooled}"
    chosen = (
        f"sparta extract PHOTOS --detector {detection.detector} --regions {detection.regions} "
        f"--threshold {detection.threshold}{' --colours' if detection.colours else ''}"
    )
    return f"{chosen} {pooled}" if source.backbone else chosen

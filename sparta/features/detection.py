"""Regions of a photo where a detector finds objects, and the whole photo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparta.features.backbone import Encoder
from sparta.features.box_pooling import pool_boxes
from sparta.features.colours import box_colours
from sparta.features.detector import Detector
from sparta.features.photos import Decoder, Photo, View
from sparta.features.record import FeatureSource, ImageFeatures

REGIONS = 36
SQUARE = 224  # side of the photo whose colours are named, where no backbone asks for another
WHOLE = np.array([[0, 0, 1, 1]], np.float32)


@dataclass(frozen=True)
class Detection:
    """Which of a detector's regions to keep, and what to say of them.

    Attributes:
        detector: hub name or folder of a checkpoint.
        regions: how many to keep at most, the surest first; the whole photo comes on top.
        threshold: confidence a region needs.
        colours: whether regions get a colour as their attribute.
    """

    detector: str
    regions: int = REGIONS
    threshold: float = 0.05
    colours: bool = False

    @classmethod
    def of(cls, source: FeatureSource) -> Detection | None:
        """What made a store's regions; None if no detector did."""
        if not source.detector:
            return None
        extra = source.extra
        return cls(source.detector, extra["regions"], extra["threshold"], extra["colours"])

    def kept(self, confidences: NDArray[np.float32]) -> NDArray[np.int64]:
        """Rows of the regions to keep, by falling confidence, equal ones in their order."""
        order = np.argsort(-confidences, kind="stable")[: self.regions]
        return order[confidences[order] >= self.threshold]


class DetectorRegions:
    """The regions a detector is surest of, by falling confidence, and the whole photo last.

    A region's vector is the state of the detector's query, the whole photo's the mean over all
    queries, kept or not. With an encoder it is pooled from its cells over the region's box, and
    the whole photo's is the encoder's own.

    Args:
        detection: which regions.
        encoder: to pool from, on photos stretched to a square.
        device: "auto", "cpu", "cuda", "mps", …

    Attributes:
        source: what makes the features.
        batch_size: photos per pass.

    Raises:
        InputError: as `Detector` does.
    """

    def __init__(
        self, detection: Detection, encoder: Encoder | None = None, device: str = "auto"
    ) -> None:
        self._detection, self._encoder = detection, encoder
        self._detector = Detector(detection.detector, device)
        self.batch_size = 4 if self._detector.device.type == "cpu" else 16
        pooled = None if encoder is None else encoder.source
        self.source = FeatureSource(
            "region",
            pooled.backbone if pooled else "",
            pooled.weights if pooled else "",
            pooled.dimension if pooled else self._detector.dimension,
            pooled.image_size if pooled else 0,
            pooled.label_count if pooled else 0,
            {
                "detector": self._detector.weights,
                "size": self._detector.size,
                "regions": detection.regions,
                "threshold": detection.threshold,
                "colours": detection.colours,
            },
            detection.detector,
        )

    def decoder(self, folder: Path, view: View) -> Decoder:
        """What reads the photos of a folder."""
        resize = self._detector.resize
        if self._encoder is None:
            return Decoder(folder, SQUARE, int(Image.Resampling.BILINEAR), view, resize)
        return Decoder(folder, self.source.image_size, self._encoder.resample, view, resize)

    def __call__(self, photos: list[Photo]) -> list[ImageFeatures]:
        """The regions of photos that this extractor's decoder has read."""
        found = self._detector([photo.large for photo in photos if photo.large is not None])
        kept = [self._detection.kept(one.confidences) for one in found]
        boxes = [one.boxes[rows] for one, rows in zip(found, kept, strict=True)]
        if self._encoder is None:
            vectors = [
                np.vstack([one.states[rows], one.states.mean(axis=0)])
                for one, rows in zip(found, kept, strict=True)
            ]
            whole = [""] * len(photos)
        else:
            vectors, whole = _pool(self._encoder, photos, boxes)
        words = [
            [self._detector.labels[number] for number in one.classes[rows]]
            for one, rows in zip(found, kept, strict=True)
        ]
        return [
            self._image(photo, rows, places, [*names, label])
            for photo, rows, places, names, label in zip(
                photos, vectors, boxes, words, whole, strict=True
            )
        ]

    def _image(
        self,
        photo: Photo,
        vectors: NDArray[np.float32],
        boxes: NDArray[np.float32],
        labels: list[str],
    ) -> ImageFeatures:
        """One photo's; vectors and labels have the whole photo's at the end."""
        colours = box_colours(photo.pixels, boxes) if self._detection.colours else [""] * len(boxes)
        with np.errstate(over="ignore"):  # whoever asked for the features looks for it
            features = vectors.astype(np.float16)
        return ImageFeatures(
            photo.image_id,
            features,
            np.concatenate([boxes, WHOLE]),
            tuple(labels),
            (*colours, ""),
            photo.width,
            photo.height,
        )


def extract_options(source: FeatureSource) -> str:
    """What `sparta extract` has to be told to make features of a source once more."""
    options = f"--image-size {source.image_size} --labels {source.label_count}"
    pooled = f"--backbone {source.backbone} {options}"
    detection = Detection.of(source)
    if detection is None:
        return pooled if source.kind != "region" else f"--from, of the files of {source.backbone}"
    chosen = (
        f"--detector {detection.detector} --regions {detection.regions} "
        f"--threshold {detection.threshold}{' --colours' if detection.colours else ''}"
    )
    return f"{chosen} {pooled}" if source.backbone else chosen


def _pool(
    encoder: Encoder, photos: list[Photo], boxes: list[NDArray[np.float32]]
) -> tuple[list[NDArray[np.float32]], list[str]]:
    """Vectors of each photo's boxes and of all of it, [n + 1, d] each, and words for the latter."""
    features, whole = encoder.encode(np.stack([photo.pixels for photo in photos]))
    vectors = [
        np.vstack([pool_boxes(rows[:-1].reshape(*encoder.grid, -1), places), rows[-1:]])
        for rows, places in zip(features, boxes, strict=True)
    ]
    return vectors, whole

"""Regions of a photo where a detector finds objects, and the whole photo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.colours import box_colours
from sparta.features.extract.detector import Detected, Detector
from sparta.features.extract.detector_settings import DetectorSettings
from sparta.features.extract.networks.encoder import Encoder
from sparta.features.extract.photos import Decoder, Photo
from sparta.features.extract.roi_pooling import pool_boxes
from sparta.features.record import FeatureSource, ImageFeatures

SQUARE = 224  # side of the photo whose colours are named, where no backbone requires another
WHOLE = np.array([[0, 0, 1, 1]], np.float32)


class DetectorRegions:
    """A detector's highest-confidence regions, by decreasing confidence, and the whole photo last.

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
        self, detection: DetectorSettings, encoder: Encoder | None = None, device: str = "auto"
    ) -> None:
        self._detection, self._encoder = detection, encoder
        self._detector = Detector(detection.detector, device)
        self.batch_size = 4 if self._detector.device.type == "cpu" else 16
        nothing_pooled = FeatureSource("region", "", "", self._detector.dimension, image_size=0)
        self.source = replace(
            encoder.source if encoder else nothing_pooled,
            kind="region",
            extra={
                "detector": self._detector.weights,
                "size": self._detector.size,
                "regions": detection.regions,
                "threshold": detection.threshold,
                "colours": detection.colours,
            },
            detector=detection.detector,
        )

    def decoder(self, folder: Path, augmentation: Augmentation) -> Decoder:
        """What reads the photos of a folder."""
        resize = self._detector.resize
        if self._encoder is None:
            return Decoder(folder, SQUARE, int(Image.Resampling.BILINEAR), augmentation, resize)
        return Decoder(folder, self.source.image_size, self._encoder.resample, augmentation, resize)

    def __call__(self, photos: list[Photo]) -> list[ImageFeatures]:
        """The regions of photos that this extractor's decoder has read."""
        found = self._detector([photo.large for photo in photos if photo.large is not None])
        kept = [one.take(self._detection.kept(one.confidences)) for one in found]
        if self._encoder is None:
            means = [one.states.mean(axis=0) for one in found]
            vectors = [np.vstack([k.states, mean]) for k, mean in zip(kept, means, strict=True)]
            words = [""] * len(photos)
        else:
            vectors, words = _pool(self._encoder, photos, [k.boxes for k in kept])
        return [self._image(*parts) for parts in zip(photos, kept, vectors, words, strict=True)]

    def _image(
        self, photo: Photo, kept: Detected, vectors: NDArray[np.float32], word: str
    ) -> ImageFeatures:
        """One photo's; the last vector and the word are the whole photo's."""
        boxes = kept.boxes
        colours = box_colours(photo.pixels, boxes) if self._detection.colours else [""] * len(boxes)
        labels = [self._detector.labels[number] for number in kept.classes]
        with np.errstate(over="ignore"):  # the caller checks for infinity
            features = vectors.astype(np.float16)
        return ImageFeatures(
            photo.image_id,
            features,
            np.concatenate([boxes, WHOLE]),
            (*labels, word),
            (*colours, ""),
            photo.width,
            photo.height,
        )


def _pool(
    encoder: Encoder, photos: list[Photo], boxes: list[NDArray[np.float32]]
) -> tuple[list[NDArray[np.float32]], list[str]]:
    """Vectors of each photo's boxes and of the whole photo, [n + 1, d], and the latter's labels."""
    features, whole = encoder.encode(np.stack([photo.pixels for photo in photos]))
    vectors = [
        np.vstack([pool_boxes(rows[:-1].reshape(*encoder.grid, -1), places), rows[-1:]])
        for rows, places in zip(features, boxes, strict=True)
    ]
    return vectors, whole

"""Object detectors of the transformers library: boxes, classes and a vector for each."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from sparta.errors import InputError
from sparta.extract.image_files import PhotoError
from sparta.extract.photos import Augmentation, Decoder, Photo
from sparta.features.record import DetectorSettings, FeatureSource, ImageFeatures
from sparta.model_id import pinned_name
from sparta.networks.backbone import pick_device
from sparta.networks.encoder import Encoder, weights_hash
from sparta.networks.pretrained import Normalisation, load_model, load_processor

SQUARE = 224  # side of the photo whose colours are named, where no backbone requires another
WHOLE = np.array([[0, 0, 1, 1]], np.float32)
SAMPLES = 14  # along each side of a box
_NAMES = "black white grey red orange yellow green blue purple pink brown"
NAMES = tuple(_NAMES.split())
SHARE = 0.35  # of the pixels, for a name to count
BLACK, WHITE, GREY, RED, ORANGE, YELLOW, GREEN, BLUE, PURPLE, PINK, BROWN = range(len(NAMES))
HUES = (15, 40, 70, 165, 255, 290, 345)  # degrees, where one name ends and the next begins
BROWN_HUE = 50  # below it, what is dark or dull is brown


class Detected(NamedTuple):
    """A detector's output for one photo, for each of its q queries.

    Attributes:
        boxes: [q, 4] float32, x1, y1, x2, y2 relative to the photo, within it.
        confidences: [q] float32, probability of the most probable class.
        classes: [q] int64, the most probable class, "no object" excluded.
        states: [q, d] float32, the last hidden state of each query.
    """

    boxes: NDArray[np.float32]
    confidences: NDArray[np.float32]
    classes: NDArray[np.int64]
    states: NDArray[np.float32]

    def take(self, rows: NDArray[np.int64]) -> Detected:
        """Some of the queries, in the order given."""
        boxes, confidences, classes, states = self
        return Detected(boxes[rows], confidences[rows], classes[rows], states[rows])


def _resize(processor: Any, photo: Image.Image) -> NDArray[np.uint8]:
    """Resize an RGB photo as a detector requires, to [3, height, width] uint8.

    Its shape is kept unless the detector stretches; nothing is padded.

    Raises:
        PhotoError: if its short side would be too short to see.
    """
    later = {"do_rescale": False, "do_normalize": False, "do_pad": False}
    try:
        prepared = processor(images=photo, return_tensors="np", **later)
        pixels: NDArray[np.uint8] = prepared["pixel_values"][0]
        return pixels
    except ValueError as error:  # the short side rounds to 0 pixels
        raise PhotoError(
            f"{photo.width}x{photo.height} pixels, too narrow for the detector"
        ) from error


class Detector:
    """A detector with queries, such as DETR (Carion et al. 2020) and its successors.

    Only photos of the same shape go through the network together: nothing is padded, so a
    photo's boxes are relative to it whatever its neighbours are. Always float32 and in eval
    mode. Queries are trained to find an object once, so there is no non-maximum suppression.

    Attributes:
        resize: resizes the photos first.
        labels: a word for each class, "" where the checkpoint has none ("N/A", "LABEL_7").
        weights: hash of the weights.
        size: of its input, from its image processor.
        dimension: d of the states.

    Raises:
        InputError: if the checkpoint is no object detector, has no queries with boxes, classes
            and states, or lacks weights.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        self.device = pick_device(device)
        processor = load_processor(name, "--detector")
        self.resize = partial(_resize, processor)  # goes to worker processes
        self.size: dict[str, int] = dict(processor.size)
        self._normalise = Normalisation.of(processor)
        self._model = load_model(name, "an object detector")
        self._model.to(self.device, torch.float32).eval()
        self.labels = _words(self._model.config.id2label)
        self.weights = weights_hash(name)
        self._turn = threading.Lock()  # one batch at a time, as in `TorchEncoder`
        self.dimension = self._probe(name)

    def __call__(self, photos: Sequence[NDArray[np.uint8]]) -> list[Detected]:
        """Find objects in photos [3, height, width] uint8 RGB, as `resize` makes them."""
        alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, photo in enumerate(photos):
            alike[photo.shape].append(number)
        found: dict[int, Detected] = {}
        for numbers in alike.values():
            batch = self._detect(np.stack([photos[number] for number in numbers]))
            found |= zip(numbers, batch, strict=True)
        return [found[number] for number in range(len(photos))]

    def _detect(self, pixels: NDArray[np.uint8]) -> list[Detected]:
        """[B, 3, height, width] to what is in each."""
        flags = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with self._turn, torch.inference_mode(), flags:
            values = self._normalise(torch.from_numpy(pixels).to(self.device))
            output = self._model(pixel_values=values)
            confidences, classes = _probabilities(output.logits, len(self.labels)).max(dim=-1)
            # YOLOS has the tokens of its patches before those of its queries.
            states = output.last_hidden_state[:, -output.logits.shape[1] :]
            parts = (_corners(output.pred_boxes), confidences, classes, states)
            return [
                Detected(*photo)
                for photo in zip(*(part.cpu().numpy() for part in parts), strict=True)
            ]

    def _probe(self, name: str) -> int:
        """Width of the states, from one black photo."""
        try:
            return int(self([self.resize(Image.new("RGB", (64, 64)))])[0].states.shape[1])
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"--detector {name}: {type(self._model).__name__} does not give boxes, classes "
                f"and a state for each query ({error}); use a detector such as DETR, RT-DETR or "
                "YOLOS"
            ) from error


def _probabilities(logits: torch.Tensor, classes: int) -> torch.Tensor:
    """[B, q, classes] probability of every class.

    Detectors trained with cross-entropy have one more class at the end, "no object"; the others
    were trained with a focal loss and decide on each class by itself.
    """
    if logits.shape[-1] > classes:
        return logits.softmax(dim=-1)[..., :classes]
    return logits.sigmoid()


def _corners(boxes: torch.Tensor) -> torch.Tensor:
    """[B, q, 4] centre, width and height to x1, y1, x2, y2 within the photo."""
    centre, size = boxes[..., :2], boxes[..., 2:]
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1).clamp(0, 1)


def _words(classes: dict[int, str]) -> list[str]:
    names = [classes[number].strip() for number in range(len(classes))]
    return [
        "" if name.upper() == "N/A" or name == f"LABEL_{number}" else name
        for number, name in enumerate(names)
    ]


class DetectorRegions:
    """A detector's highest-confidence regions, by decreasing confidence, and the whole photo last.

    A region's vector is the state of the detector's query, the whole photo's the mean over all
    queries, kept or not. With an encoder it is pooled from its cells over the region's box, and
    the whole photo's is the encoder's own.

    Args:
        encoder: to pool from, on photos stretched to a square.
    """

    def __init__(
        self, detection: DetectorSettings, encoder: Encoder | None = None, device: str = "auto"
    ) -> None:
        self._detection, self._encoder = detection, encoder
        name = pinned_name(detection.detector)
        self._detector = Detector(name, device)
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
            detector=name,
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


def pool_boxes(cells: NDArray[np.floating], boxes: NDArray[np.floating]) -> NDArray[np.float32]:
    """Mean of a feature map [rows, columns, d] over n boxes: [n, d] float32.

    It is taken at 14 × 14 evenly spaced points between a box's cells. A point's value is
    interpolated bilinearly between the centres of the cells around it; outside the outermost
    centres it is that of the nearest (RoIAlign, He et al. 2017, with a mean over the whole box). Of
    a map of 7 or 14 cells a side, the whole photo gets the plain mean.
    """
    rows, columns, dimension = cells.shape
    # The points form a grid, so the mean over them is a weighted sum over rows and columns.
    vertical = _weights(boxes[:, 1], boxes[:, 3], rows)
    horizontal = _weights(boxes[:, 0], boxes[:, 2], columns)
    weights = (vertical[:, :, None] * horizontal[:, None]).reshape(len(boxes), rows * columns)
    return weights @ cells.reshape(-1, dimension).astype(np.float32)


def _weights(
    start: NDArray[np.floating], end: NDArray[np.floating], cells: int
) -> NDArray[np.float32]:
    """[n, cells] share of each cell of a side in the mean over the points from start to end."""
    steps = (np.arange(SAMPLES) + 0.5) / SAMPLES
    points = (start[:, None] + (end - start)[:, None] * steps) * cells - 0.5
    distances = np.abs(points.clip(0, cells - 1)[:, :, None] - np.arange(cells))
    weights: NDArray[np.float32] = (1 - distances).clip(0).mean(axis=1).astype(np.float32)
    return weights


def box_colours(pixels: NDArray[np.uint8], boxes: NDArray[np.floating]) -> list[str]:
    """Name the colour of the middle of each box of a photo [height, width, 3] uint8 RGB.

    The middle is half as wide and half as high as the box. Its colour is the commonest name if that
    covers 35 % of it, else ""; of equally common ones, the first in the order of `NAMES`.
    """
    names = name_pixels(pixels)
    height, width = names.shape
    centre, quarter = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 4
    size = np.array([width, height])
    start = np.minimum(np.floor((centre - quarter) * size), size - 1).astype(int)
    end = np.maximum(np.ceil((centre + quarter) * size).astype(int), start + 1)
    return [
        _commonest(names[y1:y2, x1:x2])
        for (x1, y1), (x2, y2) in zip(start.tolist(), end.tolist(), strict=True)
    ]


def name_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Name pixels [..., 3] uint8 RGB by hue, saturation and value: indices into `NAMES`."""
    hue, saturation, value = _hsv(pixels)
    order = np.array([RED, ORANGE, YELLOW, GREEN, BLUE, PURPLE, PINK, RED], np.uint8)
    names = order[np.digitize(hue, HUES)]
    pale, dull = saturation < 0.5, (saturation < 0.5) | (value < 0.65)
    reddish = (names == RED) | (names == PINK)
    names[dull & (hue < BROWN_HUE)] = BROWN
    names[reddish & pale & (value >= 0.7)] = PINK
    colourless = saturation < 0.18
    names[colourless] = np.where(value >= 0.75, WHITE, GREY)[colourless]
    names[value < 0.2] = BLACK
    return names


def _hsv(
    pixels: NDArray[np.uint8],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Hue in degrees (0 to 360), saturation and value (0 to 1), each [...] float32."""
    red, green, blue = np.moveaxis(pixels.astype(np.float32), -1, 0)
    value = pixels.max(axis=-1).astype(np.float32)
    spread = value - pixels.min(axis=-1)
    safe = np.maximum(spread, 1)  # without any spread the hue is 0
    sixths = np.where(
        value == red,
        (green - blue) / safe,
        np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = 60 * np.where(spread == 0, 0, sixths) % 360
    return hue.astype(np.float32), spread / np.maximum(value, 1), value / 255


def _commonest(names: NDArray[np.uint8]) -> str:
    counts = np.bincount(names.ravel(), minlength=len(NAMES))
    best = int(counts.argmax())
    return NAMES[best] if counts[best] >= SHARE * names.size else ""

"""Object detectors of the transformers library: boxes, classes and a vector for each."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from sparta.errors import InputError
from sparta.features.extract.image_files import PhotoError
from sparta.features.extract.networks.backbone import pick_device
from sparta.features.extract.networks.pretrained import (
    Normalisation,
    load_model,
    load_processor,
)
from sparta.features.extract.networks.weights import weights_hash


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


@dataclass(frozen=True)
class Resizing:
    """Resizes photos as a detector requires; small enough to send to worker processes."""

    processor: Any

    def __call__(self, photo: Image.Image) -> NDArray[np.uint8]:
        """An RGB photo as [3, height, width] uint8, its shape kept unless the detector stretches.

        Nothing is padded.

        Raises:
            PhotoError: if its short side would be too short to see.
        """
        later = {"do_rescale": False, "do_normalize": False, "do_pad": False}
        try:
            prepared = self.processor(images=photo, return_tensors="np", **later)
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

    Args:
        name: hub name or folder of a checkpoint.
        device: "auto", "cpu", "cuda", "mps", …

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
        self.resize = Resizing(processor)
        self.size: dict[str, int] = dict(processor.size)
        self._normalise = Normalisation.of(processor)
        self._model = load_model(name, "an object detector")
        self._model.to(self.device, torch.float32).eval()
        self.labels = _words(self._model.config.id2label)
        self.weights = weights_hash(name)
        self._turn = threading.Lock()  # one batch at a time, as in `run`
        self.dimension = self._probe(name)

    def __call__(self, photos: Sequence[NDArray[np.uint8]]) -> list[Detected]:
        """Find objects in photos.

        Args:
            photos: each [3, height, width] uint8 RGB, as `resize` makes them.
        """
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

"""Vision networks of the transformers library as sources of regions."""

from __future__ import annotations

import inspect
from math import isqrt
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.extract.networks.pretrained import (
    class_names,
    load_model,
    load_preprocessing,
    weights_hash,
)
from sparta.features.record import FeatureKind, FeatureSource

MAX_PREFIX = 16  # class and register tokens before the patches


class Encoder(Protocol):
    """Turns photos, resized to a square, into regions."""

    source: FeatureSource
    grid: tuple[int, int]
    resample: int
    batch_size: int

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to features [B, rows * columns + 1, d] and B whole labels."""
        ...


class Backbone:
    """A CNN's feature map or a transformer's patch tokens, and their mean as the whole photo.

    Photos are stretched to the square, never cropped, so that boxes stay relative to the whole
    photo. Always float32 and in eval mode.

    Args:
        name: hub name or folder of a checkpoint.
        image_size: side of the square; the checkpoint's own by default.
        labels: how many of the classifier's top classes label the whole photo.
        device: "auto", "cpu", "cuda", "mps", …

    Raises:
        InputError: if the checkpoint is no vision network, lacks weights or a trained
            classifier, or its output cannot be laid on a grid.
        OSError: if the checkpoint or its preprocessing cannot be found.
    """

    def __init__(
        self, name: str, image_size: int | None = None, labels: int = 0, device: str = "auto"
    ) -> None:
        self.device = pick_device(device)
        self.preprocessing = load_preprocessing(name, image_size)
        self.resample = self.preprocessing.resample
        self.batch_size = fitting_batch(self.device)
        self._labels = labels
        self._classifier = load_model(name, "an image classifier") if labels else None
        self._classes = class_names(name, self._classifier.config) if self._classifier else []
        whole = self._classifier.base_model if self._classifier else load_model(name)
        self._vision = getattr(whole, "vision_model", whole)
        if self._vision.main_input_name != "pixel_values":
            raise InputError(f"{name}: {type(whole).__name__} is not a vision model")
        (self._classifier or self._vision).to(self.device, torch.float32).eval()
        self._options = _interpolation(self._vision, self.preprocessing.side)
        self.grid = (0, 0)
        kind, dimension = self._probe(name)
        self.source = FeatureSource(
            kind, name, weights_hash(name), dimension, self.preprocessing.side, labels
        )

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """Features of a batch of stretched photos.

        Args:
            pixels: [B, side, side, 3] uint8 RGB.

        Returns:
            [B, rows * columns + 1, d] float16, cells row by row and their mean last; and B
            strings, the whole photos' class names ("" without `labels`).
        """
        flags = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), flags:
            hidden, logits = self._forward(pixels)
            names = [""] * len(pixels) if logits is None else self._names(logits)
            return with_whole(self._cells(hidden)), names

    def _forward(self, pixels: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor | None]:
        values = self.preprocessing(torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2))
        if self._classifier is None:
            return self._vision(pixel_values=values, **self._options).last_hidden_state, None
        # One pass gives both: the hook sees what the network hands to its classifier.
        seen: list[torch.Tensor] = []
        hook = self._vision.register_forward_hook(
            lambda _module, _inputs, output: seen.append(output.last_hidden_state)
        )
        try:
            logits = self._classifier(pixel_values=values, **self._options).logits
        finally:
            hook.remove()
        return seen[0], logits

    def _cells(self, hidden: torch.Tensor) -> torch.Tensor:
        """[B, d, rows, columns] or [B, prefix + cells, d] to [B, cells, d]."""
        if hidden.ndim == 4:
            return hidden.flatten(2).transpose(1, 2)
        return hidden[:, -self.grid[0] * self.grid[1] :]

    def _probe(self, name: str) -> tuple[FeatureKind, int]:
        """Learn the grid from one black photo."""
        side = self.preprocessing.side
        with torch.inference_mode():
            try:
                hidden, _ = self._forward(np.zeros((1, side, side, 3), np.uint8))
            except (TypeError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"{name} cannot read photos of {side} pixels ({error}); "
                    "use another --image-size"
                ) from error
        if hidden.ndim == 4:
            self.grid = (hidden.shape[2], hidden.shape[3])
            return "grid", hidden.shape[1]
        cells = patch_side(hidden.shape[1], side, self._vision.config)
        if cells is None:
            raise InputError(
                f"{name}: {hidden.shape[1]} tokens for {side} x {side} pixels do not form a square "
                "grid of patches; use an --image-size the network was made for"
            )
        self.grid = (cells, cells)
        return "patch", hidden.shape[2]

    def _names(self, logits: torch.Tensor) -> list[str]:
        """The first synonym of each photo's best classes; "background" is left out."""
        real = [i for i, name in enumerate(self._classes) if name != "background"]
        top = logits[:, real].topk(min(self._labels, len(real))).indices.tolist()
        return [", ".join(self._classes[real[i]] for i in row) for row in top]


def pick_device(name: str) -> torch.device:
    """The device of a name; "auto" takes a GPU if there is one.

    Raises:
        InputError: if there is no such device.
    """
    if name == "auto":
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else mps)
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}; try auto") from error


def fitting_batch(device: torch.device) -> int:
    """Photos per pass.

    On a CPU the feature maps of larger batches outgrow what malloc recycles (32 MB), and the time
    goes into fresh pages: with MobileNetV2, 150 photos/s at 4 and 50 at 32.
    """
    return 4 if device.type == "cpu" else 64


def with_whole(cells: torch.Tensor) -> NDArray[np.float16]:
    """[B, cells, d] to [B, cells + 1, d] float16, the mean of the cells last."""
    rows: NDArray[np.float16] = (
        torch.cat([cells, cells.mean(dim=1, keepdim=True)], dim=1).half().cpu().numpy()
    )
    return rows


def patch_side(tokens: int, side: int, config: Any) -> int | None:
    """Rows of the square grid the last tokens of a sequence form, None if they form none.

    Class and register tokens come first; networks that merge patches have no such tokens.
    """
    patch = getattr(config, "patch_size", None)
    patch = patch[0] if isinstance(patch, list | tuple) else patch
    if patch and 0 <= tokens - (side // patch) ** 2 <= MAX_PREFIX:
        return int(side // patch)
    return isqrt(tokens) if isqrt(tokens) ** 2 == tokens else None


def _interpolation(vision: Any, side: int) -> dict[str, bool]:
    """Request interpolated position embeddings of networks that do not interpolate by default."""
    able = "interpolate_pos_encoding" in inspect.signature(vision.forward).parameters
    return {"interpolate_pos_encoding": True} if able and vision.config.image_size != side else {}

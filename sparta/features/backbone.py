"""Vision networks of the transformers library as sources of regions."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoImageProcessor, AutoModel, AutoModelForImageClassification
from transformers.utils import cached_file

from sparta.errors import InputError
from sparta.features.record import FeatureSource, Kind

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
MAX_PREFIX = 16  # class and register tokens before the patches


class Encoder(Protocol):
    """What extraction needs: stretched photos in, regions out."""

    source: FeatureSource
    grid: tuple[int, int]
    resample: int

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to features [B, rows * columns + 1, d] and B whole labels."""
        ...


@dataclass(frozen=True)
class Preprocessing:
    """How a checkpoint wants its photos: (pixels * scale - mean) / std, [3, 1, 1] float32 each."""

    side: int
    resample: int
    scale: float
    mean: torch.Tensor
    std: torch.Tensor


class Backbone:
    """A CNN's feature map or a transformer's patch tokens, and their mean as the whole photo.

    Photos are stretched to the square, never cropped, so that boxes stay relative to the whole
    photo. Always float32 and in eval mode.

    Args:
        name: hub name or folder of a checkpoint.
        image_size: side of the square; the checkpoint's own by default.
        labels: how many classes of the checkpoint's own classifier name the whole photo.
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
        self._labels = labels
        self._classifier = load_model(name, classifier=True) if labels else None
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
        flags = torch.backends.cudnn.flags(deterministic=True, benchmark=False, allow_tf32=False)
        with torch.inference_mode(), flags:
            hidden, logits = self._forward(pixels)
            cells = self._cells(hidden)
            rows = torch.cat([cells, cells.mean(dim=1, keepdim=True)], dim=1)
            names = [""] * len(pixels) if logits is None else self._names(logits)
            return rows.half().cpu().numpy(), names

    def _forward(self, pixels: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor | None]:
        prepared = self.preprocessing
        values = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float()
        values = (values * prepared.scale - prepared.mean.to(self.device)) / prepared.std.to(
            self.device
        )
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

    def _probe(self, name: str) -> tuple[Kind, int]:
        """Learn the grid from one black photo."""
        side = self.preprocessing.side
        with torch.inference_mode():
            try:
                hidden, _ = self._forward(np.zeros((1, side, side, 3), np.uint8))
            except (ValueError, RuntimeError) as error:
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
        assert self._classifier is not None
        names: dict[int, str] = self._classifier.config.id2label
        first = [names[i].split(",")[0].strip() for i in range(len(names))]
        hidden = [i for i, name in enumerate(first) if name == "background"]
        logits[:, hidden] = -torch.inf
        top = logits.topk(min(self._labels, len(first) - len(hidden))).indices.tolist()
        return [", ".join(first[i] for i in row) for row in top]


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


def load_preprocessing(name: str, image_size: int | None) -> Preprocessing:
    """Size, filter, mean and deviation as the checkpoint's image processor gives them."""
    processor: Any = AutoImageProcessor.from_pretrained(name, backend="pil")
    crop = getattr(processor, "do_center_crop", None) and processor.crop_size
    size = crop or processor.size
    side = image_size or size.height or size.shortest_edge
    zeros, ones = [0.0] * 3, [1.0] * 3
    normalize = processor.do_normalize
    return Preprocessing(
        side=int(side),
        resample=int(processor.resample),
        scale=processor.rescale_factor if processor.do_rescale else 1.0,
        mean=torch.tensor(processor.image_mean if normalize else zeros).reshape(3, 1, 1),
        std=torch.tensor(processor.image_std if normalize else ones).reshape(3, 1, 1),
    )


def load_model(name: str, classifier: bool = False) -> Any:
    """Load a checkpoint none of whose used weights is missing.

    Raises:
        InputError: if the checkpoint is of an unknown kind or weights are missing.
    """
    auto = AutoModelForImageClassification if classifier else AutoModel
    try:
        model, info = auto.from_pretrained(name, output_loading_info=True, dtype=torch.float32)
    except ValueError as error:
        wanted = "an image classifier" if classifier else "a vision model"
        raise InputError(f"{name} is not {wanted}: {str(error).splitlines()[0]}") from error
    # A pooler is often left out of a checkpoint, and its output is not used here.
    missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
    missing += sorted(str(key) for key in info["mismatched_keys"])
    if missing:
        hint = "; it has no trained classifier, leave out --labels" if classifier else ""
        raise InputError(f"{name} lacks the weights {', '.join(missing[:5])}{hint}")
    return model


def weights_hash(name: str) -> str:
    """First 16 hex digits of the sha256 of a checkpoint's weights: of content, not of the path.

    Raises:
        InputError: if no weights file is found.
    """
    for file in WEIGHTS:
        if path := _file(name, file):
            return _sha256([path])
        if index := _file(name, f"{file}.index.json"):
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            return _sha256([path for part in sorted(set(parts)) if (path := _file(name, part))])
    raise InputError(f"{name}: found neither {' nor '.join(WEIGHTS)}")


def patch_side(tokens: int, side: int, config: Any) -> int | None:
    """Rows of the square grid the last tokens of a sequence form, None if they form none.

    Class and register tokens come first; networks that merge patches have no such tokens.
    """
    patch = getattr(config, "patch_size", None)
    patch = patch[0] if isinstance(patch, list | tuple) else patch
    if patch and 0 <= tokens - (side // patch) ** 2 <= MAX_PREFIX:
        return side // patch
    return isqrt(tokens) if isqrt(tokens) ** 2 == tokens else None


def _interpolation(vision: Any, side: int) -> dict[str, bool]:
    """Ask for stretched position embeddings where the network can but does not by itself."""
    able = "interpolate_pos_encoding" in inspect.signature(vision.forward).parameters
    return {"interpolate_pos_encoding": True} if able and vision.config.image_size != side else {}


def _file(name: str, file: str) -> Path | None:
    found = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    return None if found is None else Path(found)


def _sha256(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]

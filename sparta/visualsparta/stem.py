"""A convolutional stem: regions of raw pixels see shapes before the transformer reads them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import torch
from torch import Tensor, nn

from sparta.features.extract.networks.encoder import PATCH

BLOCKS = (1, 2, 1)  # residual blocks of the stages, at 4, 8 and 16 pixels a cell


class ConvolutionalStem(nn.Module):
    """A small residual network over the photo that raw pixel patches make up.

    One stage each for cells of 4, 8 and 16 pixels; those of 16 are the patches, so that regions
    remain what they were.

    Args:
        widths: channels of the three stages.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        first = nn.Conv2d(3, widths[0], 8, stride=4, padding=2, bias=False)
        layers: list[nn.Module] = [first, nn.BatchNorm2d(widths[0]), nn.ReLU()]
        for stage, width in enumerate(widths):
            if stage:
                before = widths[stage - 1]
                layers += [
                    nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                ]
            layers += [_Residual(width) for _ in range(BLOCKS[stage])]
        self.layers = nn.Sequential(*layers)

    def forward(self, patches: Tensor) -> Tensor:
        """Turn patches into vectors of the same places.

        Args:
            patches: [B, n + 1, 768] float, as `PixelPatches` gives them: n squares, row by row,
                and the whole photo, which is not read.

        Returns:
            [B, n + 1, widths[-1]], the mean of all places last.

        Raises:
            ValueError: if the patches do not form a square.
        """
        # Tracing would take the number that len gives for a constant.
        batch, cells = patches.shape[0], isqrt(patches.shape[1] - 1)
        if cells * cells + 1 != patches.shape[1]:
            raise ValueError(f"{patches.shape[1]} regions are not a square of patches and a whole")
        squares = patches[:, :-1].reshape(batch, cells, cells, PATCH, PATCH, 3)
        photo = squares.permute(0, 5, 1, 3, 2, 4).reshape(batch, 3, cells * PATCH, cells * PATCH)
        # Channels last is the faster layout on a CPU.
        found = self.layers(photo.contiguous(memory_format=torch.channels_last))
        places = found.flatten(2).transpose(1, 2)
        return torch.cat([places, places.mean(dim=1, keepdim=True)], dim=1)


class _Residual(nn.Module):
    """x + two convolutions of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, c, h, w] to the same shape."""
        return torch.relu(x + self.layers(x))

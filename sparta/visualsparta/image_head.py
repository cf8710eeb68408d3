"""What goes before the image transformer, or takes its place: a stem of pixels, dense encoders."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparta.json_values import Json
from sparta.networks.encoder import PATCH
from sparta.vse.batch import RegionBatch
from sparta.vse.config import VseConfig
from sparta.vse.encoders import with_one
from sparta.vse.model import VseModel

BLOCKS = (1, 2, 1)  # residual blocks of the stages, at 4, 8 and 16 pixels a cell


class ConvolutionalStem(nn.Module):
    """A small residual network over the photo that raw pixel patches make up.

    One stage each for cells of 4, 8 and 16 pixels; those of 16 are the patches, so that regions
    remain what they were.
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


class JointHead(nn.Module):
    """Vectors of an image tower in the space that it shares with a text tower, as they are."""

    def forward(self, regions: Tensor) -> Tensor:
        """[B, n, d] to [B, n, d + 1] of length 1 with a 1 behind."""
        return with_one(F.normalize(regions.float(), dim=-1))


class DenseHead(nn.Module):
    """The image encoder of a dense VSE model with one vector an image.

    Args:
        config: of the dense model, a dict.
    """

    def __init__(self, config: Json) -> None:
        super().__init__()
        # Of the text encoder nothing is needed; the smallest has the fewest weights.
        small = {"text": "gru", "text_encoder": None, "text_pooling": "mean"}
        sizes = {"text_pooling_options": None, "vocabulary_size": 1, "word_dim": 1}
        self.dense = VseModel(VseConfig(**{**config, **small, **sizes}))
        del self.dense.word_encoder, self.dense.text_pooling

    def forward(self, regions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Regions [B, n, d], which mask [B, n] tells from padding, to [B, n + 1, size] and mask.

        The last vector is the image's. The others are those of images of one region each, to find
        the objects of terms.
        """
        whole = self.dense.encode_images(RegionBatch(regions, mask.sum(dim=1)))
        alone = regions.flatten(0, 1)[:, None]
        ones = torch.ones_like(alone[:, 0, 0], dtype=torch.int64)
        encoded = self.dense.encode_images(RegionBatch(alone, ones))
        # Tracing would take the numbers that unflatten and len give for constants.
        parts = encoded.reshape(regions.shape[0], regions.shape[1], *encoded.shape[1:])
        vectors = torch.cat([parts[:, :, 0], whole], dim=1)
        return with_one(vectors), F.pad(mask, (0, 1), value=True)

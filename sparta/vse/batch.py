"""Image features, photos and texts → padded tensors for the dense models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparta.features.record import ImageFeatures

ImageInput: TypeAlias = ImageFeatures | NDArray[np.uint8]  # or pixels [side, side, 3] RGB


class RegionBatch(NamedTuple):
    """B images as sets of visual vectors, padded to the longest."""

    # [B, n, d] float (float16 from a store; the model widens it), zero behind `lengths`
    regions: Tensor
    lengths: Tensor  # [B] int64, real vectors of each image, 1 to n; padding comes only after them

    def to(self, device: torch.device | str) -> RegionBatch:
        """The same batch on another device."""
        return RegionBatch(*(part.to(device, non_blocking=True) for part in self))


class PixelBatch(NamedTuple):
    """B photos for a model with a vision backbone of its own."""

    # [B, 3, H, W] uint8 RGB, stretched to the backbone's size; the model scales and normalises them
    # as the backbone's checkpoint does
    pixels: Tensor

    def to(self, device: torch.device | str) -> PixelBatch:
        """The same batch on another device."""
        return PixelBatch(self.pixels.to(device, non_blocking=True))


class TextBatch(NamedTuple):
    """B tokenised texts, padded to the longest."""

    ids: Tensor  # [B, L] int64, the pad id behind `lengths`
    lengths: Tensor  # [B] int64, tokens of each text with its start and end, 1 to L

    def to(self, device: torch.device | str) -> TextBatch:
        """The same batch on another device."""
        return TextBatch(*(part.to(device, non_blocking=True) for part in self))


def real_rows(lengths: Tensor, size: int) -> Tensor:
    """[B, size] bool, True for the first `lengths` [B] places of each row, False for padding."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def collate_regions(images: Sequence[ImageFeatures], max_regions: int | None = None) -> RegionBatch:
    """Pad B images, at least one, all of one dimension; each keeps its first `max_regions`.

    One without any region counts as a single zero vector: every pooling needs something to pool.
    """
    kept = [image.features[:max_regions] for image in images]
    lengths = [max(1, len(rows)) for rows in kept]
    regions = np.zeros((len(kept), max(lengths), kept[0].shape[1]), kept[0].dtype)
    for padded, rows in zip(regions, kept, strict=True):
        padded[: len(rows)] = rows
    return RegionBatch(torch.from_numpy(regions), torch.tensor(lengths))


def collate_pixels(photos: Sequence[NDArray[np.uint8]]) -> PixelBatch:
    """Stack B photos [side, side, 3] uint8 RGB, at least one, all of one size."""
    # Contiguous: oneDNN fails on channels that come last, in small networks on some processors.
    return PixelBatch(torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2).contiguous())


def collate_images(
    images: Sequence[ImageInput], max_regions: int | None = None
) -> RegionBatch | PixelBatch:
    """`collate_regions` for features, `collate_pixels` for photos."""
    if features := [one for one in images if isinstance(one, ImageFeatures)]:
        return collate_regions(features, max_regions)
    return collate_pixels([one for one in images if not isinstance(one, ImageFeatures)])


def collate_texts(ids: Sequence[Sequence[int]], pad_id: int) -> TextBatch:
    """Pad B tokenised texts (at least one, none of them empty) with `pad_id`."""
    lengths = [len(row) for row in ids]
    padded = torch.full((len(ids), max(lengths)), pad_id, dtype=torch.int64)
    for place, row in zip(padded, ids, strict=True):
        place[: len(row)] = torch.tensor(row)
    return TextBatch(padded, torch.tensor(lengths))

"""Image features → padded tensors for the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from sparta.features.record import ImageFeatures
from sparta.tokenizer import WordPieceTokenizer
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.padding import ImagePadder, PaddedImages


@dataclass(frozen=True)
class ImageBatch:
    """B images, padded to the longest: n regions and k label tokens.

    Attributes:
        regions: [B, n, d] float16, visual vectors (v of equation 2); the model widens them.
        locations: [B, n, 6] float32 (l of equation 3, in Oscar's order).
        region_mask: [B, n] bool, True for a region, False for padding.
        label_ids: [B, k] int64, word pieces of attributes and labels (o of equation 6).
        label_mask: [B, k] bool.
        label_regions: [B, k] int64, the region each label token describes.
    """

    regions: Tensor
    locations: Tensor
    region_mask: Tensor
    label_ids: Tensor
    label_mask: Tensor
    label_regions: Tensor

    @classmethod
    def of(cls, images: PaddedImages) -> ImageBatch:
        """The same arrays as tensors."""
        return cls(*map(torch.from_numpy, images))

    def to(self, device: torch.device | str) -> ImageBatch:
        """The same batch on another device."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return ImageBatch(**{k: v.to(device, non_blocking=True) for k, v in parts.items()})

    def __len__(self) -> int:
        return len(self.regions)


class ImageCollator(ImagePadder):
    """Pads images, as `ImagePadder` does, to a batch of tensors."""

    @classmethod
    def of(cls, tokenizer: WordPieceTokenizer, config: VisualSpartaConfig) -> ImageCollator:
        """The batches that a model of this configuration takes."""
        limits = config.max_regions, config.max_label_tokens
        return cls(tokenizer, *limits, attributes=config.use_attributes)

    def __call__(self, images: Sequence[ImageFeatures]) -> ImageBatch:
        """Pad B images; padding is zero in every tensor."""
        return ImageBatch.of(self.pad(images))

"""Image features → padded batches: NumPy arrays, or tensors for a model of torch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import ImageFeatures
from sparta.tokenizer import TermTokenizer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from sparta.visualsparta.config import VisualSpartaConfig

log = logging.getLogger(__name__)


class PaddedImages(NamedTuple):
    """B images as arrays; see `ImageBatch`."""

    regions: NDArray[np.float16]
    locations: NDArray[np.float32]
    region_mask: NDArray[np.bool_]
    label_ids: NDArray[np.int64]
    label_mask: NDArray[np.bool_]
    label_regions: NDArray[np.int64]


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
        import torch

        return cls(*map(torch.from_numpy, images))

    def to(self, device: torch.device | str) -> ImageBatch:
        """The same batch on another device."""
        return ImageBatch(*(part.to(device, non_blocking=True) for part in vars(self).values()))

    def __len__(self) -> int:
        return len(self.regions)


class ImagePadder:
    """Pads images to a batch, with at most `max_regions` regions and `max_label_tokens` tokens.

    Of an image with more the first ones are used, as in Oscar, and the first case is logged.
    Labels come with their attributes unless `attributes` is False.
    """

    def __init__(
        self,
        tokenizer: TermTokenizer,
        max_regions: int,
        max_label_tokens: int,
        attributes: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_regions = max_regions
        self.max_label_tokens = max_label_tokens
        self.attributes = attributes
        self._known: dict[str, list[int]] = {}
        self._warned = False

    @classmethod
    def of(cls, tokenizer: TermTokenizer, config: VisualSpartaConfig) -> ImagePadder:
        """Pads to the batches that a model of this configuration takes."""
        limits = config.max_regions, config.max_label_tokens
        return cls(tokenizer, *limits, attributes=config.use_attributes)

    def __call__(self, images: Sequence[ImageFeatures]) -> ImageBatch:
        """Pad B images to tensors; padding is zero in each."""
        return ImageBatch.of(self.pad(images))

    def pad(self, images: Sequence[ImageFeatures]) -> PaddedImages:
        """Pad B images to arrays; padding is zero in each."""
        labels = [self._label_tokens(image) for image in images]
        counts = [min(len(image.features), self.max_regions) for image in images]
        n, k = max(counts), max(len(ids) for ids, _ in labels)
        size, d = len(images), images[0].features.shape[1]
        regions = np.zeros((size, n, d), np.float16)
        locations = np.zeros((size, n, 6), np.float32)
        label_ids, label_regions = np.zeros((2, size, k), np.int64)
        label_mask = np.zeros((size, k), bool)
        for i, (image, count, (ids, owners)) in enumerate(zip(images, counts, labels, strict=True)):
            self._warn_if_cut(image, count)
            regions[i, :count] = image.features[:count]
            locations[i, :count] = image.locations[:count]
            label_ids[i, : len(ids)] = ids
            label_regions[i, : len(ids)] = owners
            label_mask[i, : len(ids)] = True
        region_mask = np.arange(n) < np.array(counts)[:, None]
        parts = (regions, locations, region_mask, label_ids, label_mask, label_regions)
        return PaddedImages(*parts)

    def length(self, image: ImageFeatures) -> int:
        """Positions the image takes in a batch: its regions and its label tokens."""
        return min(len(image.features), self.max_regions) + len(self._label_tokens(image)[0])

    def _label_tokens(self, image: ImageFeatures) -> tuple[list[int], list[int]]:
        """Word pieces of "attribute label" region by region, and the region of each piece."""
        ids: list[int] = []
        owners: list[int] = []
        pairs = zip(image.attributes, image.labels, strict=True)
        for region, (attribute, label) in enumerate(pairs):
            words = f"{attribute} {label}".strip() if self.attributes else label
            if not words or region >= self.max_regions:
                continue
            pieces = self._pieces(words)
            ids += pieces
            owners += [region] * len(pieces)
        return ids[: self.max_label_tokens], owners[: self.max_label_tokens]

    def _pieces(self, words: str) -> list[int]:
        """Ids of a label's word pieces, cached: a detector has few labels, tokenising is slow."""
        if words not in self._known:
            self._known[words] = self.tokenizer.encode_ids(words)
        return self._known[words]

    def _warn_if_cut(self, image: ImageFeatures, count: int) -> None:
        if count < len(image.features) and not self._warned:
            self._warned = True
            log.warning(
                "%s has %d regions, the model takes %d: only the first are used, here and in "
                "any further such image",
                image.image_id,
                len(image.features),
                self.max_regions,
            )

"""Image features → padded arrays, as a model reads them; by NumPy alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import ImageFeatures
from sparta.tokenizer import WordPieceTokenizer

log = logging.getLogger(__name__)


class PaddedImages(NamedTuple):
    """B images, padded to the longest: n regions and k label tokens.

    Attributes:
        regions: [B, n, d] float16, visual vectors (v of equation 2).
        locations: [B, n, 6] float32 (l of equation 3, in Oscar's order).
        region_mask: [B, n] bool, True for a region, False for padding.
        label_ids: [B, k] int64, word pieces of attributes and labels (o of equation 6).
        label_mask: [B, k] bool.
        label_regions: [B, k] int64, the region each label token describes.
    """

    regions: NDArray[np.float16]
    locations: NDArray[np.float32]
    region_mask: NDArray[np.bool_]
    label_ids: NDArray[np.int64]
    label_mask: NDArray[np.bool_]
    label_regions: NDArray[np.int64]


class ImagePadder:
    """Pads images to a batch, with at most `max_regions` regions and `max_label_tokens` tokens.

    Of an image with more the first ones are used, as in Oscar, and the first case is logged.
    Labels come with their attributes unless `attributes` is False.
    """

    def __init__(
        self,
        tokenizer: WordPieceTokenizer,
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

    def pad(self, images: Sequence[ImageFeatures]) -> PaddedImages:
        """Pad B images; padding is zero in every array."""
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

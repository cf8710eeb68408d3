"""Pairs of photo and caption as training examples; a draw depends only on seed, epoch and pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.vse.batch import PixelBatch, RegionBatch, TextBatch, collate_images, collate_texts
from sparta.vse.tokenizer import TextTokenizer
from training.dropout import select_regions
from training.vse.augmentation import KEEP, disturb_words
from training.vse.config import VseAugmentationConfig


class PairBatch(NamedTuple):
    """B pairs; image i and text i are a positive pair.

    Attributes:
        images: B images, as features or, for a model with a vision network, as pixels.
        texts: B captions.
        photos: [B] int64, index of each pair's photo in the data set.
    """

    images: RegionBatch | PixelBatch
    texts: TextBatch
    photos: Tensor

    def to(self, device: torch.device | str) -> PairBatch:
        """The same batch on another device."""
        return PairBatch(self.images.to(device), self.texts.to(device), self.photos.to(device))


@dataclass(frozen=True)
class TrainingPair:
    """One photo and one caption as drawn in one epoch.

    Attributes:
        photo: index in the data set.
        image: features, or pixels as [side, side, 3] RGB.
        ids: of the caption, with start and end tokens.
    """

    photo: int
    image: ImageFeatures | NDArray[np.uint8]
    ids: list[int]


class CaptionWords:
    """Captions as ids grouped by word, to draw augmented captions from.

    Args:
        captions: of each photo.
        tokenizer: of the model.
        chance: probability that a word is masked, replaced or deleted.
    """

    def __init__(
        self, captions: Sequence[Sequence[str]], tokenizer: TextTokenizer, chance: float
    ) -> None:
        self.words = [[tokenizer.words(text) for text in texts] for texts in captions]
        self.tokenizer = tokenizer
        self.chance = chance

    def __len__(self) -> int:
        return sum(map(len, self.words))

    def draw(self, photo: int, caption: int, rng: np.random.Generator) -> list[int]:
        """Ids of one caption after word augmentation, with start and end tokens."""
        words = self.words[photo][caption]
        if self.chance:
            words = disturb_words(words, self.tokenizer, rng, self.chance)
        return self.tokenizer.frame(words)


class CaptionedRegions(Dataset[TrainingPair]):
    """Pairs of features and captions; store and augmentation are drawn per pair and epoch.

    Args:
        stores: features of the same photos.
        image_ids: N photos.
        captions: of each photo.
        tokenizer: of the model.
        seed: of all draws.
        augmentation: of regions and words.
    """

    def __init__(
        self,
        stores: Sequence[FeatureStore],
        image_ids: Sequence[str],
        captions: Sequence[Sequence[str]],
        tokenizer: TextTokenizer,
        seed: int,
        augmentation: VseAugmentationConfig,
    ) -> None:
        self.stores = stores
        self.rows = [[store.index(image_id) for image_id in image_ids] for store in stores]
        self.words = CaptionWords(captions, tokenizer, augmentation.words)
        self.seed = seed
        self.augmentation = augmentation

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, key: tuple[int, int, int]) -> TrainingPair:
        epoch, photo, caption = key
        rng = np.random.default_rng((self.seed, epoch, photo, caption))
        store = int(rng.integers(len(self.stores)))
        image = self.stores[store][self.rows[store][photo]]
        ids = self.words.draw(photo, caption, rng)
        return TrainingPair(photo, self._augment(image, rng), ids)

    def _augment(self, image: ImageFeatures, rng: np.random.Generator) -> ImageFeatures:
        kept = KEEP[self.augmentation.regions](len(image.features), rng)
        return image if len(kept) == len(image.features) else select_regions(image, kept)


class PairCollator:
    """Collates pairs to a `PairBatch`."""

    def __init__(self, pad_id: int, max_regions: int | None) -> None:
        self.pad_id = pad_id
        self.max_regions = max_regions

    def __call__(self, pairs: Sequence[TrainingPair]) -> PairBatch:
        """Pad the regions of images and the words of captions."""
        return PairBatch(
            collate_images([pair.image for pair in pairs], self.max_regions),  # type: ignore[arg-type]
            collate_texts([pair.ids for pair in pairs], self.pad_id),
            torch.tensor([pair.photo for pair in pairs]),
        )

"""Pairs of photo and caption as training examples; a draw depends only on seed, epoch and pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.vse.batch import PixelBatch, RegionBatch, TextBatch, collate_images, collate_texts
from sparta.vse.tokenizer import TextTokenizer
from training.dropout import remaining, select_regions
from training.vse.config import VseAugmentationConfig


def keep_regions(n: int, rng: np.random.Generator, chance: float = 0.2) -> NDArray[np.int64]:
    """Drop each region with the same probability, 20 % in GPO's paper and code.

    Args:
        n: number of regions, at least 1.
        rng: source of the draws.
        chance: probability of each region to be dropped.

    Returns:
        [m] int64, the rows that stay, ascending, 1 <= m <= n: if all would be dropped, one drawn
        row stays.

    Raises:
        ValueError: if there is no region.
    """
    if n < 1:
        raise ValueError("an image must have at least one region")
    return remaining(n, chance, rng)


def keep_grid(
    n: int, rng: np.random.Generator, apply: float = 0.8, most: float = 0.2
) -> NDArray[np.int64]:
    """Drop grid cells at a rate drawn for each image, as the published code does.

    One u is drawn per image: below 1 - `apply` nothing is dropped, above it each cell with
    probability `most`·u, so 4 to 20 % by default, 9.6 % over all images. The paper drops 20 % of
    every image: see `keep_regions`.

    Args:
        n: number of cells, at least 1.
        rng: source of the draws.
        apply: share of the images whose cells are dropped.
        most: the highest probability of a cell to be dropped.

    Returns:
        [m] int64, the rows that stay, ascending, 1 <= m <= n.

    Raises:
        ValueError: if there is no cell.
    """
    rate = rng.random()
    return keep_regions(n, rng, most * rate if rate > 1 - apply else 0.0)


def _keep_all(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.arange(n)


# `augmentation.regions` of the settings → the rows of n vectors that stay.
KEEP = {
    "none": _keep_all,
    "regions": keep_regions,
    "grid": keep_grid,
    "grid-flat": keep_regions,
}


def drop_vectors(images: RegionBatch, rule: str, rng: np.random.Generator) -> RegionBatch:
    """Drop vectors of the sets that a vision network gives, before they are pooled.

    Args:
        images: B sets without padding.
        rule: a key of `KEEP`.
        rng: source of the draws.

    Returns:
        The sets with the vectors that stay, in order, padded with zeros; gradients pass.
    """
    kept = [rows[torch.from_numpy(KEEP[rule](len(rows), rng))] for rows in images.regions]
    lengths = torch.tensor([len(rows) for rows in kept], device=images.lengths.device)
    return RegionBatch(pad_sequence(kept, batch_first=True), lengths)


def disturb_words(
    words: Sequence[Sequence[int]],
    tokenizer: TextTokenizer,
    rng: np.random.Generator,
    chance: float = 0.2,
) -> list[list[int]]:
    """Mask, replace or delete whole words, as the published code of GPO and VSE+2AD does.

    Of the chosen words, 50 % are masked and 10 % replaced by random entries of the vocabulary,
    piece by piece so that their length is unchanged; 40 % are deleted, which is the size
    augmentation. GPO's paper drops 20 % of the words.

    Args:
        words: ids of each word's pieces, without start and end tokens.
        tokenizer: supplies the mask id and the ordinary ids.
        rng: source of the draws.
        chance: probability of each word to be chosen.

    Returns:
        The words that stay, in order. If all would be deleted, one drawn word stays unchanged.
    """
    ordinary = tokenizer.ordinary_ids
    disturbed = []
    for word, draw in zip(words, rng.random(len(words)).tolist(), strict=True):
        if draw >= chance:
            disturbed.append(list(word))
        elif draw < 0.5 * chance:
            disturbed.append([tokenizer.mask_id] * len(word))
        elif draw < 0.6 * chance:
            picks = rng.integers(len(ordinary), size=len(word)).tolist()
            disturbed.append([ordinary[pick] for pick in picks])
    if words and not disturbed:
        return [list(words[int(rng.integers(len(words)))])]
    return disturbed


class PairBatch(NamedTuple):
    """B pairs; image i and text i are a positive pair."""

    # B images, as features or, for a model with a vision network, as pixels.
    images: RegionBatch | PixelBatch
    texts: TextBatch  # B captions
    photos: Tensor  # [B] int64, index of each pair's photo in the data set

    def to(self, device: torch.device | str) -> PairBatch:
        """The same batch on another device."""
        return PairBatch(self.images.to(device), self.texts.to(device), self.photos.to(device))


@dataclass(frozen=True)
class TrainingPair:
    """One photo and one caption as drawn in one epoch."""

    photo: int  # index in the data set
    image: ImageFeatures | NDArray[np.uint8]  # features, or pixels as [side, side, 3] RGB
    ids: list[int]  # of the caption, with start and end tokens


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

"""Pairs of photo and caption as training examples; a draw depends only on seed, epoch and pair."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from sparta.errors import InputError
from sparta.extract.photos import Crop, not_utf8
from sparta.features.record import SKIPPED, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.vse.batch import PixelBatch, RegionBatch, TextBatch, collate_images, collate_texts
from sparta.vse.encoders import PhotoFolder, vision_source
from sparta.vse.tokenizer import TextTokenizer
from training.module import remaining, select_regions
from training.vse.config import VseAugmentationConfig, VseTrainConfig

DROPPED = 0.2  # share of regions, or of images whose cells all stay
log = logging.getLogger(__name__)


def keep_rows(rule: str, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows of n >= 1 regions, grid cells or patches that stay, rising; at least one.

    "regions" and "grid-flat" drop each with probability 0.2, as GPO's paper. "grid" follows its
    published code: one u is drawn per image; below 0.2 nothing is dropped, above it each cell with
    probability 0.2·u, so 4 to 20 %, 9.6 % over all images.
    """
    if rule == "none":
        return np.arange(n)
    if rule == "grid":
        rate = rng.random()
        return remaining(n, DROPPED * rate if rate > DROPPED else 0.0, rng)
    return remaining(n, DROPPED, rng)


def drop_vectors(images: RegionBatch, rule: str, rng: np.random.Generator) -> RegionBatch:
    """The sets that a vision network gives, with the vectors that stay; gradients pass."""
    kept = [rows[torch.from_numpy(keep_rows(rule, len(rows), rng))] for rows in images.regions]
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
    augmentation. GPO's paper drops 20 % of the words. If all would be deleted, one drawn word
    stays unchanged. `words` has the ids of each word's pieces, without start and end tokens.
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


@dataclass(frozen=True)
class TrainingPair:
    """One photo and one caption as drawn in one epoch."""

    photo: int  # index in the data set
    image: ImageFeatures | NDArray[np.uint8]  # features, or pixels as [side, side, 3] RGB
    ids: list[int]  # of the caption, with start and end tokens


@dataclass
class CaptionedImages(Dataset[TrainingPair]):
    """Pairs of image and caption; store or crop, regions and words are drawn per pair and epoch."""

    images: Sequence[FeatureStore] | PhotoFolder  # stores of the same photos, or the photos
    image_ids: Sequence[str]
    captions: Sequence[Sequence[str]]  # of each photo
    tokenizer: TextTokenizer
    seed: int
    augmentation: VseAugmentationConfig

    def __post_init__(self) -> None:
        stores = [self.images] if isinstance(self.images, PhotoFolder) else self.images
        self.rows = [[store.index(name) for name in self.image_ids] for store in stores]
        self.words = [[self.tokenizer.words(text) for text in own] for own in self.captions]

    def __len__(self) -> int:
        return sum(map(len, self.words))

    def __getitem__(self, key: tuple[int, int, int]) -> TrainingPair:
        _, photo, caption = key
        rng = np.random.default_rng((self.seed, *key))
        if isinstance(self.images, PhotoFolder):
            ids = self._ids(photo, caption, rng)
            crop = draw_crop(rng) if self.augmentation.photos == "crop" else None
            return TrainingPair(photo, self.images.show(self.rows[0][photo], crop), ids)
        store = int(rng.integers(len(self.images)))
        image = self.images[store][self.rows[store][photo]]
        ids = self._ids(photo, caption, rng)
        kept = keep_rows(self.augmentation.regions, len(image.features), rng)
        whole = len(kept) == len(image.features)
        return TrainingPair(photo, image if whole else select_regions(image, kept), ids)

    def _ids(self, photo: int, caption: int, rng: np.random.Generator) -> list[int]:
        """Ids of one caption after word augmentation, with start and end tokens."""
        words = self.words[photo][caption]
        if self.augmentation.words:
            words = disturb_words(words, self.tokenizer, rng, self.augmentation.words)
        return self.tokenizer.frame(words)


def draw_crop(rng: np.random.Generator) -> Crop:
    """A random crop of 60 to 100 % of both sides, mirrored half of the time.

    As in GPO's published code for models with a fine-tuned vision network.
    """
    share = rng.uniform(0.6, 1.0)
    left, top = rng.uniform(0, 1 - share, size=2).tolist()
    return Crop((left, top, left + share, top + share), bool(rng.random() < 0.5))


def collate_pairs(pairs: Sequence[TrainingPair], pad_id: int, max_regions: int | None) -> PairBatch:
    """Pad the regions of images and the words of captions."""
    return PairBatch(
        collate_images([pair.image for pair in pairs], max_regions),
        collate_texts([pair.ids for pair in pairs], pad_id),
        torch.tensor([pair.photo for pair in pairs]),
    )


# ---- photos of a run with a vision network -------------------------------------------------------


def check_photo_settings(config: VseTrainConfig) -> None:
    """Refuse data of a run with a vision network that are not photos alone."""
    data = config.data
    extraction = data.backbone or data.grid or data.augmentations > 1
    if config.has_vision_network and (data.photos is None or data.features or extraction):
        raise InputError(
            "model.options.vision: a model with a vision network reads the photos themselves: give "
            "their folder as data.photos, without data.features, data.backbone, data.grid and "
            "data.augmentations"
        )


def open_photos(config: VseTrainConfig, out: Path) -> PhotoFolder:
    """The readable photos of a run with a vision network.

    Each photo is decoded once before training, so that a damaged one does not end the run halfway.
    As in an extraction, unreadable photos are left out and listed in `out/skipped.jsonl`.
    """
    data = config.data
    check_photo_settings(config)
    assert data.photos is not None
    source = vision_source(str(config.model.options["vision"]), data.image_size)
    folder = PhotoFolder(data.photos, source)
    skipped = folder.unreadable(config.workers)
    lines = [json.dumps(asdict(entry)) + "\n" for entry in skipped]
    (out / SKIPPED).write_text("".join(lines), encoding="utf-8")
    if skipped:
        log.warning("%d photos could not be used: see %s", len(skipped), out / SKIPPED)
    bad = {entry.image_id for entry in skipped}
    left = {one for one in folder.ids if one not in bad and not not_utf8(one)}
    if not left:
        raise InputError(
            f"{data.photos}: no photo could be used; see {out / SKIPPED} for the reasons"
        )
    return PhotoFolder(data.photos, folder.source, left)

"""Captioned photos as training examples, drawn by seed, epoch and position alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.visualsparta.collate import ImageBatch, ImageCollator
from sparta.visualsparta.model import pad_ids
from training.dropout import drop_regions, drop_words


class TrainingBatch(NamedTuple):
    """B photos and their Q captions.

    Attributes:
        images: B photos.
        photos: [B] int64, position of each photo in the data set.
        query_ids: [Q, L] int64 term ids.
        query_mask: [Q, L] bool.
        query_photos: [Q] int64, the photo each caption belongs to.
    """

    images: ImageBatch
    photos: Tensor
    query_ids: Tensor
    query_mask: Tensor
    query_photos: Tensor

    def to(self, device: torch.device | str) -> TrainingBatch:
        """The same batch on another device."""
        images, *tensors = self
        return TrainingBatch(images.to(device), *(tensor.to(device) for tensor in tensors))


@dataclass(frozen=True)
class Example:
    """One photo as drawn in one epoch."""

    photo: int
    image: ImageFeatures
    captions: list[list[int]]


class EpochSampler(Sampler[tuple[int, int]]):
    """Shuffled (epoch, photo) pairs for one of `world` processes.

    Carrying the epoch with the index makes every draw a function of seed, epoch and photo: worker
    processes that live on between epochs, and a run that is resumed, draw what they should.
    """

    def __init__(self, photos: int, seed: int, rank: int = 0, world: int = 1) -> None:
        self.photos, self.seed, self.rank, self.world = photos, seed, rank, world
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, int]]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.photos)
        own = order[: len(self) * self.world][self.rank :: self.world]
        return iter([(self.epoch, int(photo)) for photo in own])

    def __len__(self) -> int:
        return self.photos // self.world


class CaptionedFeatures(Dataset[Example]):
    """Photos with tokenised captions, one view and some captions drawn per epoch."""

    def __init__(
        self,
        views: Sequence[FeatureStore],
        image_ids: Sequence[str],
        captions: Sequence[list[list[int]]],
        seed: int,
        captions_per_photo: int = 1,
        word_dropout: float = 0.0,
        region_dropout: float = 0.0,
    ) -> None:
        self.views = views
        self.rows = [[view.index(image_id) for image_id in image_ids] for view in views]
        self.captions = captions
        self.seed = seed
        self.captions_per_photo = captions_per_photo
        self.word_dropout = word_dropout
        self.region_dropout = region_dropout

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, key: tuple[int, int]) -> Example:
        epoch, photo = key
        rng = np.random.default_rng((self.seed, epoch, photo))
        view = int(rng.integers(len(self.views)))
        image = self.views[view][self.rows[view][photo]]
        captions = self.captions[photo]
        # A photo with too few captions repeats some: all processes must bring equally many.
        wanted = self.captions_per_photo
        chosen = rng.choice(len(captions), wanted, replace=len(captions) < wanted)
        return Example(
            photo,
            drop_regions(image, self.region_dropout, rng),
            [drop_words(captions[i], self.word_dropout, rng) for i in chosen],
        )


class TrainingCollator:
    """Examples → a `TrainingBatch`."""

    def __init__(self, images: ImageCollator) -> None:
        self.images = images

    def __call__(self, examples: Sequence[Example]) -> TrainingBatch:
        """Pad photos and captions."""
        ids, mask = pad_ids((c for e in examples for c in e.captions), "cpu")
        return TrainingBatch(
            self.images([e.image for e in examples]),
            torch.tensor([e.photo for e in examples]),
            ids,
            mask,
            torch.tensor([e.photo for e in examples for _ in e.captions]),
        )

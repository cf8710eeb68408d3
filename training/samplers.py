"""Which examples an epoch visits, and in which order; a function of seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler


class EpochSampler(Sampler[tuple[int, int]]):
    """Shuffled (epoch, photo) pairs for process `rank` of `world`.

    The key includes the epoch, so that every draw is a function of seed, epoch and photo: loader
    processes that persist over epochs and resumed runs give the same draws.
    """

    def __init__(self, photos: int, seed: int, rank: int = 0, world: int = 1) -> None:
        self.photos, self.seed, self.rank, self.world = photos, seed, rank, world
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration; the trainer calls this before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, int]]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.photos)
        part = order[: len(self) * self.world][self.rank :: self.world]
        return iter([(self.epoch, int(photo)) for photo in part])

    def __len__(self) -> int:
        return self.photos // self.world


class PairSampler(Sampler[tuple[int, int, int]]):
    """Shuffled (epoch, photo, caption) for one of `world` processes; an epoch contains every pair.

    An epoch consists of rounds over the photos, with another caption of each photo in every round,
    so that a batch has two captions of one photo only at the border of two rounds.

    Args:
        captions: number of captions of each photo.
        seed: of the shuffling.
        rank: number of this process.
        world: number of processes.
    """

    def __init__(self, captions: Sequence[int], seed: int, rank: int = 0, world: int = 1) -> None:
        self.captions = np.asarray(captions)
        self.seed, self.rank, self.world = seed, rank, world
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration; the trainer calls this before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        rng = np.random.default_rng((self.seed, self.epoch))
        pairs = list(self._pairs(rng))[: len(self) * self.world]
        return iter([(self.epoch, *pair) for pair in pairs[self.rank :: self.world]])

    def _pairs(self, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        most = int(self.captions.max())
        draw = rng.random((len(self.captions), most))
        draw[np.arange(most) >= self.captions[:, None]] = 2  # sorted behind the captions
        order = draw.argsort(axis=1)
        for number in range(most):
            photos = np.flatnonzero(self.captions > number)
            for photo in rng.permutation(photos).tolist():
                yield photo, int(order[photo, number])

    def __len__(self) -> int:
        return int(self.captions.sum()) // self.world

"""The sentences nearest to each photo, and the draw of those that share a batch with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.teacher.similarities import Teacher

BLOCK = 64  # photos at once


def nearest_sentences(
    teacher: Teacher, photos: range, sentences: int, count: int
) -> Iterator[NDArray[np.int32]]:
    """The `count` sentences most similar to each photo, [p, count], rising, a block at a time.

    Args:
        teacher: that judges.
        photos: numbers of the photos.
        sentences: S, how many there are.
        count: at most S.
    """
    everything = np.arange(sentences)
    for start in range(photos.start, photos.stop, BLOCK):
        some = np.arange(start, min(start + BLOCK, photos.stop))
        similar = teacher.between(everything, some).T
        best = np.argpartition(-similar, count - 1, axis=1)[:, :count]
        yield np.sort(best, axis=1).astype(np.int32)


@dataclass(frozen=True)
class SentenceDraw:
    """Draws the sentences that enter a batch with a photo, beside its captions.

    The near ones make a batch informative: the teacher distinguishes between them. The random
    ones show what is far from every photo.

    Attributes:
        ids: term ids of each of S sentences.
        captions: for each photo the numbers of its captions among them.
        nearest: [N, m] int32, the sentences nearest to each photo.
        near: how many of those are drawn.
        random: how many of all are drawn.
    """

    ids: Sequence[list[int]]
    captions: Sequence[list[int]]
    nearest: NDArray[np.int32]
    near: int
    random: int

    def __call__(self, photo: int, instead: int, rng: np.random.Generator) -> list[int]:
        """Numbers of the sentences.

        Args:
            photo: number of the photo.
            instead: near ones to draw in place of captions that the photo lacks.
            rng: of the draw.
        """
        wanted, around = self.near + instead, self.nearest[photo]
        near = rng.choice(around, wanted, replace=len(around) < wanted)
        return [*near.tolist(), *rng.integers(len(self.ids), size=self.random).tolist()]

"""Sentences, their similarities to photos as one teacher gives them, and each photo's nearest."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparta.errors import InputError
from sparta.readers.base import read_lines

BLOCK = 1024  # photos whose mean is taken at once
SAMPLE = 1000  # photos and sentences that the scale is estimated on
Numbers = NDArray[np.int64]
Similar = NDArray[np.float32]


class SentencePool(NamedTuple):
    """Distinct sentences."""

    texts: list[str]  # S sentences
    captions: list[list[int]]  # for each of N photos the numbers of its captions among them


def read_sentences(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, at least one; blank ones are left out."""
    sentences = [line.strip() for line in read_lines(path) if line.strip()]
    if not sentences:
        raise InputError(f"{path} is empty: give one sentence a line")
    return sentences


def pool_sentences(captions: Sequence[Sequence[str]], sentences: Sequence[str]) -> SentencePool:
    """Number the distinct sentences, captions first."""
    numbers: dict[str, int] = {}
    own = [[numbers.setdefault(text, len(numbers)) for text in texts] for texts in captions]
    for text in sentences:
        numbers.setdefault(text, len(numbers))
    return SentencePool(list(numbers), own)


class Similarities:
    """Inner products, less each sentence's mean over the photos, divided by their deviation.

    Teachers differ in the range of their similarities. Standardised, they can be averaged, and
    sentences compared.

    Args:
        name: of the teacher, for messages.
        sentences: [S, D] float16.
        photos: [N, K, D] float16: K vectors a photo, of which the most similar one counts.
    """

    def __init__(
        self, name: str, sentences: NDArray[np.float16], photos: NDArray[np.float16]
    ) -> None:
        self.sentences, self.photos = sentences, photos
        self._mean = _mean(photos)
        self._scale = 1.0
        sample = self.between(_spread(len(sentences)), _spread(len(photos)))
        self._scale = float(np.sqrt(np.square(sample).mean()))
        if not self._scale:
            raise InputError(
                f"teacher.models: {name} gives every photo the same similarity with every sentence"
            )

    def between(self, sentences: Numbers, photos: Numbers) -> Similar:
        """Standardised similarities [s, p] of some sentences and photos, by their numbers."""
        texts = self.sentences[sentences].astype(np.float32)
        shown = self.photos[photos].astype(np.float32)
        views = [texts @ shown[:, view].T for view in range(shown.shape[1])]
        best: Similar = np.maximum.reduce(views)
        means: Similar = texts @ self._mean
        centred: Similar = (best - means[:, None]) / np.float32(self._scale)
        return centred


class Teacher:
    """The mean of several teachers' standardised similarities."""

    def __init__(self, parts: Sequence[Similarities]) -> None:
        self.parts = parts

    def __deepcopy__(self, _memo: Any) -> Teacher:
        """A shallow copy: averaging the weights copies all of a module, and these are files."""
        return copy(self)

    def between(self, sentences: Numbers, photos: Numbers) -> Similar:
        """Similarities [s, p] of some sentences and photos, by their numbers."""
        total = reduce(np.add, (part.between(sentences, photos) for part in self.parts))
        return total / np.float32(len(self.parts))

    def __call__(self, sentences: Tensor, photos: Tensor) -> Tensor:
        """Similarities [s, p] float32 on the numbers' device."""
        found = self.between(sentences.cpu().numpy(), photos.cpu().numpy())
        return torch.from_numpy(found).to(photos.device)


def _mean(photos: NDArray[np.float16]) -> Similar:
    """Mean [D] over photos and their vectors, of an array that need not fit in memory."""
    total = np.zeros(photos.shape[-1])
    for start in range(0, len(photos), BLOCK):
        total += photos[start : start + BLOCK].astype(np.float64).sum(axis=(0, 1))
    mean: Similar = (total / (photos.shape[0] * photos.shape[1])).astype(np.float32)
    return mean


def _spread(count: int) -> Numbers:
    """At most `SAMPLE` numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))


@dataclass(frozen=True)
class SentenceDraw:
    """Draws the sentences that enter a batch with a photo, beside its captions.

    The near ones make a batch informative: the teacher distinguishes between them. The random
    ones show what is far from every photo.
    """

    ids: Sequence[list[int]]  # term ids of each of S sentences
    captions: Sequence[list[int]]  # for each photo the numbers of its captions among them
    nearest: NDArray[np.int32]  # [N, m] int32, the sentences nearest to each photo
    near: int  # how many of those are drawn
    random: int  # how many of all are drawn

    def __call__(self, photo: int, instead: int, rng: np.random.Generator) -> list[int]:
        """Numbers of the sentences; `instead` more near ones replace captions that it lacks."""
        wanted, around = self.near + instead, self.nearest[photo]
        near = rng.choice(around, wanted, replace=len(around) < wanted)
        return [*near.tolist(), *rng.integers(len(self.ids), size=self.random).tolist()]

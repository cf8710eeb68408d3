"""Scores between texts and images, computed a block of rows or columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from sparta.errors import InputError

BYTES_PER_SCORE = 6  # float32 score, int16 position
LARGEST = 8 * 10**9  # bytes


class Scores(Protocol):
    """A matrix of T texts × N images that is never whole in memory.

    All parts are float32, on the device of the embeddings or weights.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """T and N."""
        ...

    def rows(self, texts: slice) -> Tensor:
        """Scores of some texts for all images, [t, N]."""
        ...

    def columns(self, images: slice) -> Tensor:
        """Scores of some images for all texts, [n, T]."""
        ...

    def select(self, texts: slice, images: slice) -> Scores:
        """The submatrix of some texts and images."""
        ...


@dataclass(frozen=True)
class DenseScores:
    """Inner products; the maximum over an image's views (MV-VSE, equation 6).

    Attributes:
        texts: [T, D] float32.
        images: [N, K, D] float32.
    """

    texts: Tensor
    images: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """T and N."""
        return len(self.texts), len(self.images)

    def rows(self, texts: slice) -> Tensor:
        """Scores of some texts for all images, [t, N]."""
        return view_maximum(self.texts[texts][:, None], self.images)

    def columns(self, images: slice) -> Tensor:
        """Scores of some images for all texts, [n, T]."""
        return view_maximum(self.images[images], self.texts[:, None])

    def between_texts(self, texts: slice) -> Tensor:
        """Scores of some texts for all texts, [t, T]."""
        return self.texts[texts] @ self.texts.T

    def between_images(self, images: slice) -> Tensor:
        """Scores of some images for all images, [n, N], by the best pair of their views."""
        return view_maximum(self.images[images], self.images)

    def select(self, texts: slice, images: slice) -> DenseScores:
        """The submatrix of some texts and images."""
        return DenseScores(self.texts[texts], self.images[images])


def view_maximum(queries: Tensor, items: Tensor) -> Tensor:
    """Best inner product of each pair over all pairs of their views.

    Args:
        queries: [Q, K, D] float.
        items: [N, L, D] float, on the same device.

    Returns:
        [Q, N].
    """
    products = (query @ item.T for query in queries.unbind(1) for item in items.unbind(1))
    return reduce(torch.maximum, products)


@dataclass(frozen=True)
class SparseScores:
    """Equation 12 of VisualSparta: the sum of the scores of a text's terms.

    Attributes:
        terms: [S] int64, the terms of all texts one text after another, as rows of `weights`;
            repeated terms count repeatedly.
        starts: [T + 1] int64, text i has the terms starts[i] to starts[i + 1].
        weights: [U, N] float32, each term's score in every image.
    """

    terms: Tensor
    starts: Tensor
    weights: Tensor

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], weights: Tensor) -> SparseScores:
        """Build from each text's terms, given as rows of `weights` [U, N]."""
        lengths = torch.tensor([0, *map(len, texts)])
        terms = torch.tensor([term for text in texts for term in text], dtype=torch.int64)
        return cls(terms.to(weights.device), lengths.cumsum(0).to(weights.device), weights)

    @property
    def shape(self) -> tuple[int, int]:
        """T and N."""
        return len(self.starts) - 1, self.weights.shape[1]

    def rows(self, texts: slice) -> Tensor:
        """Scores of some texts for all images, [t, N]."""
        some = self.select(texts, slice(None))
        return F.embedding_bag(some.terms, some.weights, some.starts[:-1], mode="sum")

    def columns(self, images: slice) -> Tensor:
        """Scores of some images for all texts, [n, T]."""
        weights = self.weights[:, images].contiguous()
        return F.embedding_bag(self.terms, weights, self.starts[:-1], mode="sum").T

    def select(self, texts: slice, images: slice) -> SparseScores:
        """The submatrix of some texts and images."""
        first, end, _ = texts.indices(self.shape[0])
        starts = self.starts[first : end + 1]
        terms = self.terms[starts[0] : starts[-1]]
        return SparseScores(terms, starts - starts[0], self.weights[:, images])


@dataclass(frozen=True)
class MeanScores:
    """The ensemble of GPO section 5.1.1: the mean of several models' scores.

    Attributes:
        members: at least one, over the same texts and images.
    """

    members: Sequence[Scores]

    @property
    def shape(self) -> tuple[int, int]:
        """T and N."""
        return self.members[0].shape

    def rows(self, texts: slice) -> Tensor:
        """Scores of some texts for all images, [t, N]."""
        return mean_of([member.rows(texts) for member in self.members])

    def columns(self, images: slice) -> Tensor:
        """Scores of some images for all texts, [n, T]."""
        return mean_of([member.columns(images) for member in self.members])

    def select(self, texts: slice, images: slice) -> MeanScores:
        """The submatrix of some texts and images."""
        return MeanScores([member.select(texts, images) for member in self.members])


def mean_of(parts: Sequence[Tensor]) -> Tensor:
    """Mean of tensors of one shape, at least one."""
    return sum(parts[1:], parts[0]) / len(parts)


def check_memory(images: int, terms: int) -> None:
    """Refuse term scores that would not fit in memory.

    Raises:
        InputError: if the scores of so many images would take more than 8 GB.
    """
    needed = BYTES_PER_SCORE * images * terms
    if needed > LARGEST:
        raise InputError(
            f"the scores of {images:,} images for {terms:,} terms take {needed / 1e9:.1f} GB, "
            f"over {LARGEST / 1e9:g} GB: choose at most "
            f"{LARGEST // (BYTES_PER_SCORE * terms):,} images"
        )

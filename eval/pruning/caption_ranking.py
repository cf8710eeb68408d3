"""Ranking of images for captions by weights in memory: recall, and the first ten images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eval.recall.scores import SparseScores
from indexer.pruning import prune
from sparta.captions.read import CaptionedPhoto
from sparta.metrics import LARGEST_BLOCK, Recall, ranks, recall
from sparta.tokenizer import Tokenizer

FIRST = 10


class InMemoryRanking(NamedTuple):
    """Rankings of N images for Q captions.

    Attributes:
        ranks: [Q] int64, of each caption's photo, 1 for the best.
        first: [Q, N] bool, the first ten images, fewer where fewer are found.
    """

    ranks: Tensor
    first: Tensor

    @property
    def recall(self) -> Recall:
        """Text→image recall."""
        return recall(self.ranks)

    def until(self, count: int) -> InMemoryRanking:
        """Of the first captions alone."""
        return InMemoryRanking(self.ranks[:count], self.first[:count])


@dataclass(frozen=True)
class CaptionQueries:
    """Q captions, each with its photo as the target.

    Attributes:
        terms: [U] int64, the captions' vocabulary ids, each once, rising.
        texts: each caption's terms, as positions in `terms`; repeated terms are repeated.
        targets: [Q] int64, the photos' positions among the images searched.
    """

    terms: Tensor
    texts: list[list[int]]
    targets: Tensor

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        captions: Sequence[CaptionedPhoto],
        image_ids: Sequence[str],
    ) -> CaptionQueries:
        """Tokenise all captions of some photos, which must be among the images searched."""
        ids = [tokenizer.encode_ids(text) for photo in captions for text in photo.captions]
        terms = sorted({term for text in ids for term in text})
        places = {term: place for place, term in enumerate(terms)}
        columns = {image_id: column for column, image_id in enumerate(image_ids)}
        targets = [columns[photo.image_id] for photo in captions for _ in photo.captions]
        texts = [[places[term] for term in text] for text in ids]
        return cls(torch.tensor(terms, dtype=torch.int64), texts, torch.tensor(targets))

    def rank(self, weights: Tensor) -> InMemoryRanking:
        """Sum each caption's weights (equation 15) and order the images by them.

        As in an index, equal scores go by column, and an image without any of a caption's terms
        is not found: it ranks behind all images, and behind the tenth in any case.

        Args:
            weights: [U, N] float32, at least 0, of the terms in every image; whole numbers are
                summed exactly up to 2^24. Columns in the order of image ids.
        """
        scores = SparseScores.of(self.texts, weights)
        images = weights.shape[1]
        everywhere = np.ones(images, np.bool_)
        behind = max(images, FIRST) + 1
        rank, first = [], []
        for own in torch.arange(len(self.texts)).split(max(1, LARGEST_BLOCK // images)):
            block = scores.rows(slice(int(own[0]), int(own[-1]) + 1))
            targets = self.targets[own]
            missed = block.gather(1, targets[:, None])[:, 0] == 0
            found = ranks(block, targets[:, None].tolist(), ties="by_id")
            rank.append(found.masked_fill(missed, behind))
            # `prune` breaks ties as searchers do: by column.
            first.append(torch.from_numpy(prune(block.numpy(), None, everywhere, FIRST) > 0))
        return InMemoryRanking(torch.cat(rank), torch.cat(first))


def overlap(found: InMemoryRanking, reference: InMemoryRanking) -> float:
    """Overlap of the first ten images with those of a reference ranking.

    Returns:
        Percent, the mean over the captions for which the reference finds anything.
    """
    wanted = reference.first.sum(dim=1)
    both = (found.first & reference.first).sum(dim=1)
    answered = wanted > 0
    return 100 * float((both[answered] / wanted[answered]).double().mean())

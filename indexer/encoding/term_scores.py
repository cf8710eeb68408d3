"""Feature stores → term scores: the mean over all pairs of a model and a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.load import load_scorers, wanted_terms
from indexer.encoding.scorer import Scorer, TermScores
from indexer.encoding.stores import check_stores
from indexer.grounding import Inputs
from indexer.settings import TermSet
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.padding import ImagePadder, PaddedImages

WINDOW = 16  # batches whose images are sorted by length together


class EncodedBatch(NamedTuple):
    """B images with their term scores.

    Attributes:
        images: as in the first store.
        scored: their mean term scores, and the positions that won for the first pair.
        inputs: B, what those positions refer to.
    """

    images: list[ImageFeatures]
    scored: TermScores
    inputs: list[Inputs]


@dataclass(frozen=True)
class ImageEncoder:
    """Computes an image's term scores as the mean over all pairs of a model and a feature store.

    Models trained from different seeds, and augmentations of one photo, agree on what the photo
    shows and err independently. Averaging them costs nothing when searching.

    Attributes:
        scorers: models with one vocabulary; the first determines which position won a term.
        tokenizer: the models'.
        stores: of the same photos, the plain one first, whose regions are shown.
        batch_size: images per pass of a model.
        terms: terms to compute, "trained" (by at least one model) or "all"; the others score 0.
    """

    scorers: Sequence[Scorer]
    tokenizer: Tokenizer
    stores: Sequence[FeatureStore]
    batch_size: int
    terms: TermSet = "all"
    _cache: dict[tuple[int, ...], tuple[TermScores, list[Inputs]]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        stores: Sequence[FeatureStore],
        models: Sequence[str | Path],
        batch_size: int = 32,
        device: str = "auto",
        terms: TermSet = "all",
        progress: Progress = no_progress,
    ) -> ImageEncoder:
        """Load models, and check that they and the stores go together.

        Args:
            stores: of the same photos, the plain one first.
            models: folders or hub names.
            batch_size: images per pass of a model.
            device: "auto" takes a GPU if there is one.
            terms: terms to compute, "trained" or "all".
            progress: stage "convert", in models.

        Raises:
            InputError: if a model cannot be used or was trained on other features, or models or
                stores do not go together.
        """
        check_stores(stores)
        scorers, tokenizer = load_scorers(models, stores[0], device, terms, progress)
        return cls(scorers, tokenizer, stores, batch_size, terms)

    @property
    def store(self) -> FeatureStore:
        """The first store."""
        return self.stores[0]

    def batches(self, rows: Iterable[int], cache: bool = False) -> Iterator[EncodedBatch]:
        """Images of some rows with their mean term scores.

        Args:
            rows: of the stores.
            cache: keep the scores for the next call with the same rows, which uses each once.
        """
        waiting = iter(rows)
        while window := tuple(islice(waiting, WINDOW * self.batch_size)):
            whole = self._cache.pop(window, None) or self._score(window)
            if cache:
                self._cache[window] = whole
            scored, inputs = whole
            for start in range(0, len(window), self.batch_size):
                own = slice(start, start + self.batch_size)
                images = [self.store[row] for row in window[own]]
                yield EncodedBatch(images, self._of_vocabulary(scored, own), inputs[own])

    def encode(self, copies: Sequence[Sequence[ImageFeatures]]) -> EncodedBatch:
        """Images that are in no store, with their mean term scores.

        Args:
            copies: the same images of each augmentation, the plain ones first.
        """
        scored, inputs = self._mean(copies)
        return EncodedBatch(list(copies[0]), self._of_vocabulary(scored, slice(None)), inputs)

    def _score(self, rows: Sequence[int]) -> tuple[TermScores, list[Inputs]]:
        """The mean scores of some rows of the stores."""
        return self._mean([[store[row] for row in rows] for store in self.stores])

    def _mean(self, copies: Sequence[Sequence[ImageFeatures]]) -> tuple[TermScores, list[Inputs]]:
        """Mean over all pairs of model and augmentation; positions and inputs of the first pair.

        Returns:
            [n, T] scores and positions of the terms to compute alone, which with trained terms
            take a fifth of the memory, and n inputs.
        """
        pairs = (
            self._score_by_length(scorer, padder, images)
            for scorer, padder in zip(self.scorers, self._padders, strict=True)
            for images in copies
        )
        (scores, positions), inputs = next(pairs)
        for other, _ in pairs:
            scores += other.scores
        scores /= len(self.scorers) * len(copies)
        return TermScores(scores, positions), inputs

    def _score_by_length(
        self, scorer: Scorer, padder: ImagePadder, images: Sequence[ImageFeatures]
    ) -> tuple[TermScores, list[Inputs]]:
        """Images of similar length share a pass, which then computes little padding."""
        wanted, columns = self.allowed(self.terms), self._columns
        order = np.argsort([padder.length(image) for image in images], kind="stable")
        scores = np.empty((len(images), len(columns)), np.float32)
        positions = np.empty(scores.shape, np.int16)
        read: dict[int, Inputs] = {}
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size].tolist()
            own = [images[place] for place in part]
            padded = padder.pad(own)
            found = scorer.term_scores(padded, wanted)
            scores[part], positions[part] = found.scores[:, columns], found.positions[:, columns]
            inputs = read_inputs(own, padded, scorer.config.use_labels)
            read |= zip(part, inputs, strict=True)
        return TermScores(scores, positions), [read[place] for place in range(len(images))]

    def _of_vocabulary(self, scored: TermScores, images: slice) -> TermScores:
        """Some images' scores and positions of all terms, [B, V]."""
        vocabulary = len(self.tokenizer.vocabulary)
        return TermScores(*(_widened(part[images], self._columns, vocabulary) for part in scored))

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        """[T] the terms to compute."""
        return np.flatnonzero(self.allowed(self.terms))

    @cached_property
    def _padders(self) -> list[ImagePadder]:
        return [ImagePadder.of(self.tokenizer, scorer.config) for scorer in self.scorers]

    def allowed(self, terms: TermSet) -> NDArray[np.bool_]:
        """[V] bool: terms "trained" by at least one model, or "all"."""
        return wanted_terms(self.scorers, self.tokenizer, terms)


def _widened(part: NDArray[Any], columns: NDArray[np.int64], width: int) -> NDArray[Any]:
    """[B, T] numbers in their columns of [B, width], zeros in the others."""
    whole = np.zeros((len(part), width), part.dtype)
    whole[:, columns] = part
    return whole


def read_inputs(
    images: Iterable[ImageFeatures], padded: PaddedImages, labels: bool
) -> Iterator[Inputs]:
    """What a model reads of each image of a batch.

    Args:
        images: the batch's.
        padded: the same, for the model.
        labels: whether it reads label tokens.
    """
    regions = padded.region_mask.sum(axis=1).tolist()
    tokens = (padded.label_mask.sum(axis=1) * labels).tolist()
    for i, (image, r, k) in enumerate(zip(images, regions, tokens, strict=True)):
        terms, owners = padded.label_ids[i, :k], padded.label_regions[i, :k]
        yield Inputs(image.boxes[:r], terms.astype(np.int32), owners.astype(np.int16))

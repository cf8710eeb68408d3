"""Feature stores → term scores: the mean over all pairs of a model and a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from indexer.encoding.models import check_features, load_models
from indexer.encoding.stores import check_stores
from indexer.grounding import Inputs
from indexer.settings import TermSet
from sparta.features.extract.networks.backbone import pick_device
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.collate import ImageBatch, ImageCollator
from sparta.visualsparta.model import TermScores, VisualSparta

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
        models: with one vocabulary; the first determines which position won a term.
        tokenizer: the models'.
        stores: of the same photos, the plain one first, whose regions are shown.
        batch_size: images per pass of a model.
        terms: terms to compute, "trained" (by at least one model) or "all"; the others score 0.
    """

    models: Sequence[VisualSparta]
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
    ) -> ImageEncoder:
        """Load models, and check that they and the stores go together.

        Args:
            stores: of the same photos, the plain one first.
            models: folders or hub names.
            batch_size: images per pass of a model.
            device: "auto" takes a GPU if there is one.
            terms: terms to compute, "trained" or "all".

        Raises:
            InputError: if a model cannot be used or was trained on other features, or models or
                stores do not go together.
        """
        check_stores(stores)
        loaded, tokenizer = load_models(models, pick_device(device))
        for name, model in zip(models, loaded, strict=True):
            check_features(name, model.config, stores[0])
        return cls(loaded, tokenizer, stores, batch_size, terms)

    @property
    def store(self) -> FeatureStore:
        """The first store."""
        return self.stores[0]

    @property
    def device(self) -> torch.device:
        """The models' device."""
        return self.models[0].device

    def batches(self, rows: Iterable[int], cache: bool = False) -> Iterator[EncodedBatch]:
        """Images of some rows with their mean term scores, on the models' device.

        Args:
            rows: of the stores.
            cache: keep the scores for the next call with the same rows, which uses each once.
        """
        waiting = iter(rows)
        while window := tuple(islice(waiting, WINDOW * self.batch_size)):
            whole = self._cache.pop(window, None) or self._score(window)
            if cache:
                self._cache[window] = whole
            (scores, positions), inputs = whole
            for start in range(0, len(window), self.batch_size):
                own = slice(start, start + self.batch_size)
                images = [self.store[row] for row in window[own]]
                yield EncodedBatch(images, TermScores(scores[own], positions[own]), inputs[own])

    def _score(self, rows: Sequence[int]) -> tuple[TermScores, list[Inputs]]:
        """Mean over all pairs of model and store; positions and inputs of the first pair."""
        copies = [[store[row] for row in rows] for store in self.stores]
        pairs = (
            self._score_by_length(model, collate, images)
            for model, collate in zip(self.models, self._collators, strict=True)
            for images in copies
        )
        (scores, positions), inputs = next(pairs)
        for other, _ in pairs:
            scores += other.scores
        scores /= len(self.models) * len(copies)
        return TermScores(scores, positions), inputs

    def _score_by_length(
        self, model: VisualSparta, collate: ImageCollator, images: Sequence[ImageFeatures]
    ) -> tuple[TermScores, list[Inputs]]:
        """Images of similar length share a pass, which then computes little padding."""
        wanted = self.allowed(self.terms)
        order = torch.tensor([collate.length(image) for image in images]).argsort(stable=True)
        passes: list[TermScores] = []
        read: dict[int, Inputs] = {}
        for part in order.split(self.batch_size):
            own = [images[place] for place in part]
            batch = collate(own)
            passes.append(model.term_scores(batch, wanted))
            inputs = read_inputs(own, batch, model.config.use_labels)
            read |= zip(part.tolist(), inputs, strict=True)
        back = order.argsort().to(self.device)
        scores, positions = (torch.cat(parts)[back] for parts in zip(*passes, strict=True))
        return TermScores(scores, positions), [read[place] for place in range(len(images))]

    @cached_property
    def _collators(self) -> list[ImageCollator]:
        return [ImageCollator.of(self.tokenizer, model.config) for model in self.models]

    def allowed(self, terms: TermSet) -> Tensor:
        """[V] bool on the models' device: terms "trained" by at least one model, or "all"."""
        indexable = torch.from_numpy(self.tokenizer.indexable).to(self.device)
        if terms == "all":
            return indexable
        return indexable & torch.stack([model.trained_terms for model in self.models]).any(dim=0)


def read_inputs(
    images: Iterable[ImageFeatures], batch: ImageBatch, labels: bool
) -> Iterator[Inputs]:
    """What a model reads of each image of a batch.

    Args:
        images: the batch's.
        batch: as collated for the model.
        labels: whether it reads label tokens.
    """
    regions = batch.region_mask.sum(dim=1).tolist()
    tokens = (batch.label_mask.sum(dim=1) * labels).tolist()
    for i, (image, r, k) in enumerate(zip(images, regions, tokens, strict=True)):
        terms, owners = batch.label_ids[i, :k], batch.label_regions[i, :k]
        yield Inputs(image.boxes[:r], terms.int().numpy(), owners.short().numpy())

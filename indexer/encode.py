"""From feature stores through models to postings, shard by shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from indexer.grounding import Inputs
from indexer.postings import ImagePostings, Postings
from indexer.pruning import prune
from indexer.quantisation import QuantisationReport, Quantiser
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.collate import ImageBatch, ImageCollator
from sparta.visualsparta.model import TermScores, VisualSparta

WINDOW = 16  # passes whose images are put in order of length


class EncodedBatch(NamedTuple):
    """B images with what an index keeps of them.

    Attributes:
        images: as the first view has them.
        scored: their mean term scores, and the positions that won for the first pair.
        inputs: what those positions stand for, one an image.
    """

    images: list[ImageFeatures]
    scored: TermScores
    inputs: list[Inputs]


@dataclass(frozen=True)
class ImageEncoder:
    """Models and the views they read; an image's scores are the mean over all pairs of them.

    What models trained with other seeds, or views of the same photo, agree on is what the photo
    shows; each one's errors are its own. It costs nothing when searching.

    Attributes:
        models: with one vocabulary; the first says which position won a term.
        tokenizer: theirs.
        views: stores of the same photos; the first is the one whose regions are shown.
        batch_size: images per pass of a model.
        terms: terms to compute, those "trained" in some model's training or "all"; the others
            score 0.
    """

    models: Sequence[VisualSparta]
    tokenizer: Tokenizer
    views: Sequence[FeatureStore]
    batch_size: int
    terms: str = "all"
    _kept: dict[tuple[int, ...], tuple[TermScores, list[Inputs]]] = field(default_factory=dict)

    @property
    def store(self) -> FeatureStore:
        """The first view."""
        return self.views[0]

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.models[0].device

    def batches(self, rows: Iterable[int], keep: bool = False) -> Iterator[EncodedBatch]:
        """Images of some rows as the first view has them, with their mean term scores.

        The scores are on the models' device; those of batches that an earlier call was told to
        keep are handed out, and forgotten, instead of made again.
        """
        waiting = iter(rows)
        while window := tuple(islice(waiting, WINDOW * self.batch_size)):
            whole = self._kept.pop(window, None) or self._score(window)
            if keep:
                self._kept[window] = whole
            (scores, positions), inputs = whole
            for start in range(0, len(window), self.batch_size):
                own = slice(start, start + self.batch_size)
                images = [self.store[row] for row in window[own]]
                yield EncodedBatch(images, TermScores(scores[own], positions[own]), inputs[own])

    def _score(self, rows: Sequence[int]) -> tuple[TermScores, list[Inputs]]:
        """Mean over all pairs of model and view; positions and inputs of the first pair."""
        views = [[view[row] for row in rows] for view in self.views]
        pairs = (
            self._score_by_length(model, collate, images)
            for model, collate in zip(self.models, self._collators, strict=True)
            for images in views
        )
        (scores, positions), inputs = next(pairs)
        for other, _ in pairs:
            scores += other.scores
        scores /= len(self.models) * len(views)
        return TermScores(scores, positions), inputs

    def _score_by_length(
        self, model: VisualSparta, collate: ImageCollator, images: Sequence[ImageFeatures]
    ) -> tuple[TermScores, list[Inputs]]:
        """Images of like length share a pass, which then computes little padding."""
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

    def allowed(self, terms: str) -> Tensor:
        """[V] bool on the models' device: terms "trained" in some model's training, or "all"."""
        indexable = torch.from_numpy(self.tokenizer.indexable).to(self.device)
        if terms == "all":
            return indexable
        return indexable & torch.stack([model.trained_terms for model in self.models]).any(dim=0)


class Batches(Protocol):
    """What gives some rows' images with their term scores, batch by batch."""

    def batches(self, rows: Iterable[int]) -> Iterator[EncodedBatch]:
        """See `ImageEncoder.batches`."""
        ...


class Kept(NamedTuple):
    """The terms that a batch of images keeps, end to end.

    Attributes:
        row: [n] int64, the image in the batch.
        terms: [n] int32, rising within an image.
        scores: [n] float32, above the offset.
        positions: [n] int16, the position that won each term.
    """

    row: NDArray[np.int64]
    terms: NDArray[np.int32]
    scores: NDArray[np.float32]
    positions: NDArray[np.int16]


def keep_terms(scored: TermScores, offset: Tensor, allowed: Tensor, top_n: int | None) -> Kept:
    """Prune the term scores of a batch; the arguments are those of `prune`."""
    wanted = allowed.nonzero()[:, 0]  # all that follows is for these terms alone
    scores, positions = (part.index_select(1, wanted) for part in scored)
    kept = prune(scores, offset[wanted], allowed[wanted], top_n).cpu().numpy()
    places = np.flatnonzero(kept > 0)
    row, column = np.divmod(places, max(1, len(wanted)))
    terms = wanted.int().cpu().numpy()[column]
    return Kept(row, terms, kept.ravel()[places], positions.cpu().numpy().ravel()[places])


def encode_rows(
    encoder: Batches,
    rows: Iterable[int],
    *,
    offset: Tensor,
    allowed: Tensor,
    top_n: int | None,
    quantiser: Quantiser,
) -> tuple[Postings, QuantisationReport]:
    """Postings of some rows of the stores, pruned and quantised, and what quantising cost."""
    done: list[ImagePostings] = []
    report = QuantisationReport()
    for batch in encoder.batches(rows):
        kept = keep_terms(batch.scored, offset, allowed, top_n)
        impacts = quantiser.impacts(kept.scores)
        report += quantiser.report(kept.scores, impacts)
        done += split_images(batch, kept, impacts)
    return Postings.of(done), report


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


def split_images(
    batch: EncodedBatch, kept: Kept, impacts: NDArray[np.int32]
) -> Iterator[ImagePostings]:
    """The rows of a batch's images, one by one; impacts are [n], of the terms kept."""
    ends = np.searchsorted(kept.row, np.arange(1, len(batch.images)))
    own = (np.split(part, ends) for part in (kept.terms, impacts, kept.positions))
    rows = zip(batch.images, batch.inputs, *own, strict=True)
    for image, inputs, terms, levels, positions in rows:
        size = {"width": image.width, "height": image.height}
        yield ImagePostings(image.image_id, size, terms, levels, positions, inputs)

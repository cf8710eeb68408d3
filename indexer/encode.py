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

from indexer.impacts import Quantiser, prune
from indexer.postings import ImagePostings, Postings
from indexer.writing import QuantisationReport
from sparta.features.batch import ImageCollator
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.model import TermScores, VisualSparta
from sparta.tokenizer import WordPieceTokenizer


@dataclass(frozen=True)
class ImageEncoder:
    """Models and the views they read; an image's scores are the mean over all pairs of them.

    What models trained with other seeds, or views of the same photo, agree on is what the photo
    shows; each one's errors are its own. It costs nothing when searching.

    Attributes:
        models: with one vocabulary; the first says which region won a term.
        tokenizer: theirs.
        views: stores of the same photos; the first is the one whose regions are shown.
        batch_size: images per pass of a model.
        terms: terms to compute, those "seen" in some model's training or "all"; the others
            score 0.
    """

    models: Sequence[VisualSparta]
    tokenizer: WordPieceTokenizer
    views: Sequence[FeatureStore]
    batch_size: int
    terms: str = "all"
    _kept: dict[tuple[int, ...], TermScores] = field(default_factory=dict)

    @property
    def store(self) -> FeatureStore:
        """The first view."""
        return self.views[0]

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.models[0].device

    def batches(
        self, rows: Iterable[int], keep: bool = False
    ) -> Iterator[tuple[list[ImageFeatures], TermScores]]:
        """Images of some rows as the first view has them, with their mean term scores.

        The scores are on the models' device; those of batches that an earlier call was told to
        keep are handed out, and forgotten, instead of made again.
        """
        waiting = iter(rows)
        while chunk := tuple(islice(waiting, self.batch_size)):
            scored = self._kept.pop(chunk, None) or self._score(chunk)
            if keep:
                self._kept[chunk] = scored
            yield [self.store[row] for row in chunk], scored

    def _score(self, rows: Sequence[int]) -> TermScores:
        """Mean over all pairs of model and view; regions of the first pair."""
        views = [[view[row] for row in rows] for view in self.views]
        wanted = self.allowed(self.terms)
        first, *others = (
            model.term_scores(collate(images), wanted)
            for model, collate in zip(self.models, self._collators, strict=True)
            for images in views
        )
        total = sum((other.scores for other in others), first.scores)
        return TermScores(total / (1 + len(others)), first.regions)

    @cached_property
    def _collators(self) -> list[ImageCollator]:
        return [ImageCollator.of(self.tokenizer, model.config) for model in self.models]

    def allowed(self, terms: str) -> Tensor:
        """[V] bool on the models' device: terms "seen" in some model's training, or "all"."""
        indexable = torch.from_numpy(self.tokenizer.indexable).to(self.device)
        if terms == "all":
            return indexable
        return indexable & torch.stack([model.trained_terms for model in self.models]).any(dim=0)


class Batches(Protocol):
    """What gives some rows' images with their term scores, batch by batch."""

    def batches(self, rows: Iterable[int]) -> Iterator[tuple[list[ImageFeatures], TermScores]]:
        """See `ImageEncoder.batches`."""
        ...


class Kept(NamedTuple):
    """The terms that a batch of images keeps, end to end.

    Attributes:
        row: [n] int64, the image in the batch.
        terms: [n] int32, rising within an image.
        scores: [n] float32, above the baseline.
        regions: [n] int16, the region that won each term.
    """

    row: NDArray[np.int64]
    terms: NDArray[np.int32]
    scores: NDArray[np.float32]
    regions: NDArray[np.int16]


def keep_terms(scored: TermScores, baseline: Tensor, allowed: Tensor, top_n: int | None) -> Kept:
    """Prune the term scores of a batch; the arguments are those of `prune`."""
    wanted = allowed.nonzero()[:, 0]  # all that follows is for these terms alone
    scores, regions = (part.index_select(1, wanted) for part in scored)
    kept = prune(scores, baseline[wanted], allowed[wanted], top_n).cpu().numpy()
    places = np.flatnonzero(kept > 0)
    row, column = np.divmod(places, max(1, len(wanted)))
    terms = wanted.int().cpu().numpy()[column]
    return Kept(row, terms, kept.ravel()[places], regions.cpu().numpy().ravel()[places])


def encode_rows(
    encoder: Batches,
    rows: Iterable[int],
    *,
    baseline: Tensor,
    allowed: Tensor,
    top_n: int | None,
    quantiser: Quantiser,
) -> tuple[Postings, QuantisationReport]:
    """Postings of some rows of the stores, pruned and quantised, and what quantising cost."""
    done: list[ImagePostings] = []
    report = QuantisationReport()
    for images, scored in encoder.batches(rows):
        kept = keep_terms(scored, baseline, allowed, top_n)
        impacts = quantiser.impacts(kept.scores)
        report += quantiser.report(kept.scores, impacts)
        done += split_images(images, kept, impacts)
    return Postings.of(done), report


def split_images(
    images: list[ImageFeatures], kept: Kept, impacts: NDArray[np.int32]
) -> Iterator[ImagePostings]:
    """The rows of a batch's images, one by one; impacts are [n], of the terms kept."""
    ends = np.searchsorted(kept.row, np.arange(1, len(images)))
    own = (np.split(part, ends) for part in (kept.terms, impacts, kept.regions))
    for image, terms, levels, regions in zip(images, *own, strict=True):
        size = {"width": image.width, "height": image.height}
        yield ImagePostings(image.image_id, size, terms, levels, regions, image.boxes)

"""Term scores → postings: subtract the offset, prune, quantise, in that order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.scorer import TermScores
from indexer.encoding.term_scores import EncodedBatch
from indexer.postings import Postings, PostingShard
from indexer.pruning import KeptTerms, largest, refuse_damaged
from indexer.quantisation import QuantisationReport, Quantiser


@dataclass(frozen=True)
class ImpactParameters:
    """How the term scores of one index become impacts.

    Attributes:
        offset: [V] float32, subtracted from each term's scores.
        allowed: [V] bool, terms that may enter the index.
        top_n: terms an image keeps at most; None keeps all.
        quantiser: scores above the offset → impacts.
        weights: [V] float32, of terms in the choice of those an image keeps; None for one.
    """

    offset: NDArray[np.float32]
    allowed: NDArray[np.bool_]
    top_n: int | None
    quantiser: Quantiser
    weights: NDArray[np.float32] | None = None


class BatchSource(Protocol):
    """Gives the images of some rows with their term scores, such as an `ImageEncoder`."""

    def batches(self, rows: Iterable[int]) -> Iterator[EncodedBatch]:
        """See `ImageEncoder.batches`."""
        ...


def encode_rows(
    source: BatchSource, rows: Iterable[int], parameters: ImpactParameters
) -> PostingShard:
    """Postings of some rows of the feature stores, and what quantising them cost.

    Args:
        source: of the term scores.
        rows: of the feature stores.
        parameters: of the index.
    """
    done: list[Postings] = []
    report = QuantisationReport()
    for batch in source.batches(rows):
        images, error = encode_batch(batch, parameters)
        done.append(images)
        report += error
    return PostingShard(Postings.joined(done), report)


def encode_batch(
    batch: EncodedBatch, parameters: ImpactParameters
) -> tuple[Postings, QuantisationReport]:
    """Postings of the images of a batch, and what quantising them cost.

    Args:
        batch: images with their term scores.
        parameters: of the index.
    """
    kept = keep_terms(batch.scored, parameters)
    impacts = parameters.quantiser.impacts(kept.scores)
    report = parameters.quantiser.report(kept.scores, impacts)
    return batch_postings(batch, kept, impacts), report


def keep_terms(scored: TermScores, parameters: ImpactParameters) -> KeptTerms:
    """Subtract the offset from the term scores of a batch, and keep what `prune` keeps.

    Raises:
        InputError: if a score is not a number.
    """
    wanted, weights = np.flatnonzero(parameters.allowed), parameters.weights
    scores = scored.scores.take(wanted, axis=1)  # everything is computed for these terms alone
    refuse_damaged(not np.isfinite(scores).all())
    scores -= parameters.offset[wanted]
    kept = scores > 0
    if parameters.top_n is not None and parameters.top_n < len(wanted):
        keys = scores if weights is None else scores * weights[wanted]
        kept &= largest(keys, parameters.top_n)
    places = np.flatnonzero(kept)
    row, column = np.divmod(places, max(1, len(wanted)))
    terms = wanted.astype(np.int32)[column]
    return KeptTerms(row, terms, scores.ravel()[places], scored.positions[row, terms])


def batch_postings(batch: EncodedBatch, kept: KeptTerms, impacts: NDArray[np.int32]) -> Postings:
    """The postings of a batch.

    Args:
        batch: B images.
        kept: the n terms they keep.
        impacts: [n] int32, of these terms.
    """
    postings = Postings.without_grounding(
        [image.image_id for image in batch.images],
        [{"width": image.width, "height": image.height} for image in batch.images],
        np.searchsorted(kept.row, np.arange(len(batch.images) + 1)),
        kept.terms,
        impacts,
    )
    return postings.with_grounding(kept.positions, batch.inputs)

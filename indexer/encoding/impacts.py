"""Term scores → impacts: subtract each term's offset, keep an image's largest scores, quantise.

On real photos the paper's scores are positive for most terms of most images: a large offset that
all images share, plus a small part that distinguishes them. The n largest scores are then the wrong
ones to keep. Subtracting each term's offset over the corpus before pruning corrects this. For one
query it subtracts the same sum from every image, so that by itself it changes no ranking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.manifest import Manifest
from indexer.postings import ImagePostings, Inputs, Postings, PostingShard, QuantisationReport
from indexer.settings import FREQUENCY_KINDS, OffsetKind
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.tokenizer import TermTokenizer, text_frequencies

AT_ONCE = 32  # images pruned at once: their scores stay in a core's cache

Floats = NDArray[np.float32]
Terms = NDArray[np.int64]


class ScoredImages(NamedTuple):
    """N images with their scores for T terms.

    Attributes:
        ids: N image ids.
        metadata: N, each image's width and height.
        scores: [N, T] float32, at least 0.
        positions: [N, T] int16, the input position that won each term.
        inputs: N, the inputs that the positions refer to.
    """

    ids: list[str]
    metadata: list[Json]
    scores: Floats
    positions: NDArray[np.int16]
    inputs: list[Inputs]

    def part(self, own: slice) -> ScoredImages:
        """Some consecutive images; arrays are views of these."""
        return ScoredImages(
            self.ids[own],
            self.metadata[own],
            self.scores[own],
            self.positions[own],
            self.inputs[own],
        )


# ---- pruning -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pruning:
    """How the T scores of an image are pruned.

    Attributes:
        terms: [T] int64, rising ids of the terms that are scored.
        offset: [T] float32, subtracted from each term's scores; infinite for terms to leave out.
        top_n: terms an image keeps at most; None keeps all.
        weights: [T] float32, positive; the n largest products of score above the offset and weight
            are kept. Weights decide the choice alone, not the scores. None for equal weights.
    """

    terms: Terms
    offset: Floats
    top_n: int | None
    weights: Floats | None = None

    @classmethod
    def of(
        cls, terms: Terms, offset: Floats, top_n: int | None, weights: Floats | None = None
    ) -> Pruning:
        """The pruning with offsets and weights [V] of the whole vocabulary."""
        return cls(terms, offset[terms], top_n, None if weights is None else weights[terms])

    def __call__(self, scores: Floats) -> Iterator[Floats]:
        """Prune the scores [N, T] of N images, 32 images at a time.

        Yields [n, T] float32, the score above the offset where an image keeps the term, else 0. Of
        equal products, the image keeps those of lower term ids. Raises InputError if a score is not
        finite.
        """
        for start in range(0, len(scores), AT_ONCE):
            part = scores[start : start + AT_ONCE]
            if not np.isfinite(part.sum()):  # one bad score spoils the sum
                raise InputError(
                    "the model gives term scores that are not finite: its weights are damaged"
                )
            above = part - self.offset
            keys = above if self.weights is None else above * self.weights
            yield np.where(largest(keys, self.top_n), above, np.float32(0))

    def largest_kept(self, scores: Floats) -> float:
        """The largest score above the offset that any of N images keeps, from [N, T] scores."""
        return max((float(part.max(initial=0)) for part in self(scores)), default=0.0)


def largest(scores: Floats, top_n: int | None) -> NDArray[np.bool_]:
    """[N, T] whether a score is among the n largest positive ones of its row.

    Of equal scores, those in lower columns; `top_n` None keeps all positive ones.
    """
    kept: NDArray[np.bool_] = scores > 0
    if top_n is None or top_n >= scores.shape[1]:
        return kept
    smallest = _smallest(_candidates(scores, top_n), top_n)
    kept &= scores >= smallest
    counts = kept.sum(axis=1)
    for row in np.flatnonzero(counts > top_n):  # some scores equal the smallest one kept
        level = np.flatnonzero(scores[row] == smallest[row])
        kept[row, level[top_n - counts[row] :]] = False
    return kept


def _smallest(scores: Floats, top_n: int) -> Floats:
    """[N, 1] the n-th largest score of each row."""
    return np.partition(scores, -top_n, axis=1)[:, -top_n, None]


def _candidates(scores: Floats, top_n: int) -> Floats:
    """Scores [N, fewer] with the n largest of each row, padded with -inf; a fourth of the time.

    Of groups of terms, the n-th largest maximum is no larger than the n-th largest score.
    """
    images, terms = scores.shape
    depth = max(1, terms // (4 * top_n))
    width = terms // depth
    groups = scores[:, : depth * width].reshape(images, depth, width)
    places = np.flatnonzero(scores >= _smallest(groups.max(axis=1), top_n))
    row = places // terms
    counts = np.bincount(row, minlength=images)
    column = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    found = np.full((images, counts.max(initial=top_n)), -np.inf, np.float32)
    found[row, column] = scores.ravel()[places]
    return found


# ---- quantisation --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantiser:
    """Scores to integers: impact = score / scale, rounded, from 1 to the top level.

    Attributes:
        scale: the score that one level stands for.
        bits: of the top level, 2^bits - 1.
    """

    scale: float
    bits: int

    @classmethod
    def fit(cls, largest: float, bits: int) -> Quantiser:
        """Choose the scale so that the largest score gets the top level."""
        return cls((largest or 1.0) / (2**bits - 1), bits)

    def impacts(self, scores: Floats) -> NDArray[np.int32]:
        """Positive scores → int32 impacts of the same shape; a kept term never falls to 0."""
        levels = np.rint(scores / self.scale)
        impacts: NDArray[np.int32] = np.clip(levels, 1, 2**self.bits - 1).astype(np.int32)
        return impacts

    def report(self, scores: Floats, impacts: NDArray[np.int32]) -> QuantisationReport:
        """The error of quantising these scores."""
        errors = np.abs(impacts * self.scale - scores.astype(np.float64))
        clipped = int((scores > (2**self.bits - 0.5) * self.scale).sum())
        return QuantisationReport(clipped, float(errors.sum()), float(errors.max(initial=0)))


class ImpactParameters(NamedTuple):
    """How the term scores of one index become impacts, and whether images keep their vectors."""

    pruning: Pruning
    quantiser: Quantiser
    vectors: bool = False

    def postings(self, images: ScoredImages) -> PostingShard:
        """Prune and quantise the scores of N images; raises InputError if a score is not finite."""
        done, report, terms = [], QuantisationReport(), self.pruning.terms.astype(np.int32)
        for number, kept in enumerate(self.pruning(images.scores)):
            part = images.part(slice(number * AT_ONCE, (number + 1) * AT_ONCE))
            places = np.flatnonzero(kept)
            row, column = np.divmod(places, max(1, len(terms)))
            scores = kept.ravel()[places]
            impacts = self.quantiser.impacts(scores)
            report += self.quantiser.report(scores, impacts)
            starts = np.searchsorted(row, np.arange(len(kept) + 1))
            plain = Postings.without_grounding(
                part.ids, part.metadata, starts, terms[column], impacts
            )
            done.append(plain.with_grounding(part.positions[row, column], part.inputs))
        postings = Postings.joined(done)
        return PostingShard(postings if self.vectors else replace(postings, vectors=()), report)


class WeightReader:
    """Turns term weights that are ready into impacts of an index, without a model.

    Raises InputError if the folder is not an index.
    """

    def __init__(self, index: Path, vocabulary: Sequence[str]) -> None:
        manifest = Manifest.open(index)
        self._quantiser = Quantiser(manifest.scale, manifest.bits)
        self._ids = {term: number for number, term in enumerate(vocabulary)}

    def __call__(self, image_id: str, weights: Mapping[str, float]) -> ImagePostings:
        """The postings of an image from weights, all kept: term → score above its offset.

        Raises InputError, which names a term that the vocabulary lacks, or a weight that is not
        positive.
        """
        try:
            terms = np.array([self._ids[term] for term in weights], np.int32)
        except KeyError as error:
            problem = f"term {error.args[0][:60]!r} is not in the vocabulary of the index"
            raise InputError(problem) from error
        scores = np.array(list(weights.values()), np.float64)
        for place in np.flatnonzero(~((scores > 0) & (scores < np.inf))):
            problem = f"the weight of term {list(weights)[place]!r} is {scores[place]}"
            raise InputError(f"{problem}, not a positive number")
        order = np.argsort(terms)
        finite = np.minimum(scores[order], np.float32(1e30)).astype(np.float32)
        impacts = self._quantiser.impacts(finite)
        starts = np.array([0, len(terms)])
        [image] = Postings.without_grounding([image_id], [{}], starts, terms[order], impacts)
        return image


# ---- estimated on a sample of images, or on texts ------------------------------------------------


def estimate_offsets(scores: Floats, kind: OffsetKind) -> Floats:
    """Each term's offset [T] over the scores [N, T] of a sample of images.

    "minimum" changes no ranking when nothing is pruned and the sample is the corpus; "mean" and
    "median" also drop scores below them; "none" is the paper's pruning.
    """
    offset: Floats = np.zeros(scores.shape[1], np.float32)
    if kind == "mean":
        offset = scores.mean(axis=0, dtype=np.float64).astype(np.float32)
    elif kind == "median":
        middle = (len(scores) - 1) // 2
        offset = np.partition(scores, middle, axis=0)[middle]
    elif kind == "minimum":
        offset = scores.min(axis=0)
    return offset


class TermFrequencies(NamedTuple):
    """Weights of terms in the choice of those an image keeps, from their frequency in queries.

    A posting of a term that no query contains is of no use, however large its impact.

    Attributes:
        source: "model", the SHA-256 of a file of queries, or "none".
        power: p of the weights, 0 for "none".
        weights: [V] float32, (frequency + 1)^p; None for "none".
    """

    source: str
    power: float
    weights: Floats | None

    @classmethod
    def of(
        cls, frequencies: str, power: float, trained: NDArray[np.int64], by: TermTokenizer
    ) -> TermFrequencies:
        """Weigh terms by their frequency in queries, to a power from 0 (equal weights) to 1.

        `frequencies` is "none", "model" for `trained`, which has [V] how many of the models'
        training captions contain each term, or the path of a text file with one query a line. The
        weights are `NO_TERM_FREQUENCIES` where no model records frequencies. Raises InputError if
        the file cannot be read, is not UTF-8, or has no term of the vocabulary.
        """
        source, found = frequencies, trained
        if frequencies not in FREQUENCY_KINDS:
            text = read_queries(frequencies)
            source = hashlib.sha256(text.encode()).hexdigest()
            found = text_frequencies(map(by.encode_ids, text.split("\n")), len(by.vocabulary))
            if not found.any():
                raise InputError(
                    f"--frequencies {frequencies} has no word of the model's vocabulary: give a "
                    "file of queries, one a line"
                )
        if frequencies == "none" or not found.any():
            return NO_TERM_FREQUENCIES
        return cls(source, power, ((found + 1.0) ** power).astype(np.float32))


NO_TERM_FREQUENCIES = TermFrequencies("none", 0.0, None)


def read_queries(frequencies: str) -> str:
    """The text of a file of queries; raises InputError if it is unreadable or blank."""
    try:
        text = Path(frequencies).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"--frequencies {frequencies} cannot be read ({error.strerror}): give "
            f"{', '.join(FREQUENCY_KINDS)} or a text file of queries, one a line"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"--frequencies {frequencies} is not UTF-8 text ({error.reason} at byte "
            f"{error.start}): convert it"
        ) from error
    if not text.strip():
        raise InputError(
            f"--frequencies {frequencies} is empty: give a file of queries, one a line"
        )
    return text


# ---- drift ---------------------------------------------------------------------------------------

MEANS = "term_means.npy"  # of an index folder: each term's mean impact as built
REBUILD = 0.5  # from which drift on a rebuild is worth it: docs/results/recall.md


def drift(built: NDArray[np.floating], now: NDArray[np.floating]) -> float:
    """The share of the impacts that has moved to other terms since an index was built.

    Offsets and scale come from the images of the build. Where later images resemble these, every
    term keeps its mean impact. From the mean impacts [V] of then and now: the sum of |now - built|
    over the sum of built; 0 for the same means, 2 where no term of then has an impact today.
    """
    whole = float(built.sum())
    return float(np.abs(now - built).sum()) / whole if whole else 2.0 * bool(now.any())

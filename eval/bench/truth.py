"""Exact answers by scoring every image, and the comparison of an engine's answers with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eval.bench.corpus import Corpus, TermQuery
from eval.bench.engines import Answer, Promise
from eval.bench.vectors import Vectors
from indexer.dense.vectors import best

ROUNDING = 1e-4  # of inner products of vectors of length 1 in float32
AT = 10


class WrongAnswer(Exception):
    """Raised when an engine's answer breaks its promise."""


@dataclass(frozen=True)
class GroundTruth:
    """The score of every image for some queries.

    Attributes:
        scores: [Q, N] int32 sums of impacts or float32 inner products.
    """

    scores: NDArray[np.int32] | NDArray[np.float32]

    @classmethod
    def of_impacts(cls, corpus: Corpus, queries: Sequence[TermQuery]) -> GroundTruth:
        """Multiply all impacts by the queries' counts: slow, obvious, exact."""
        counts = np.zeros((len(queries), len(corpus.vocabulary)), np.int32)
        for row, query in enumerate(queries):
            counts[row, list(query.terms)] = list(query.terms.values())
        columns = csr_array(counts).T.tocsr()
        scores = np.empty((len(queries), corpus.images), np.int32)
        done = 0
        for rows in corpus.rows():
            shape = (len(rows), len(corpus.vocabulary))
            part = csr_array((rows.impacts, rows.terms, rows.starts), shape=shape) @ columns
            scores[:, done : done + len(rows)] = part.toarray().T
            done += len(rows)
        return cls(scores)

    @classmethod
    def of_vectors(cls, vectors: Vectors, queries: Sequence[TermQuery]) -> GroundTruth:
        """Multiply all vectors by the queries'."""
        own = vectors.queries[[query.number for query in queries]]
        parts = [(chunk @ own.T).T for chunk in vectors.chunks()]
        return cls(np.concatenate(parts, axis=1))

    def top(self, row: int, k: int) -> Answer:
        """The k best images of one query, ties by number; only images that share a term with it."""
        images, scores, _ = best(self.scores[row], k)
        if np.issubdtype(scores.dtype, np.integer):
            images, scores = images[scores > 0], scores[scores > 0]
        return Answer(images, scores)

    def check(self, name: str, promise: Promise, answers: Sequence[Answer], k: int) -> float:
        """Compare an engine's answers with the exact ones.

        Args:
            name: of the engine.
            promise: that its answers must satisfy.
            answers: to the first queries.
            k: hits per query.

        Returns:
            overlap at 10: the share of the ten best images that the engine found; any image with
            an equal score counts.

        Raises:
            WrongAnswer: if the promise is broken.
        """
        shares = []
        for row, answer in enumerate(answers):
            right = self.top(row, k)
            if not self._holds(promise, answer, right, self.scores[row]):
                raise WrongAnswer(f"{name} finds {answer} instead of {right}")
            shares.append(self._overlap(answer, right, self.scores[row]))
        return float(np.mean(shares))

    def _holds(
        self, promise: Promise, answer: Answer, right: Answer, scores: NDArray[np.number]
    ) -> bool:
        if promise is Promise.NEAR:
            return True
        if len(answer.documents) != len(right.documents):
            return False
        if promise is Promise.ORDER and not np.array_equal(answer.documents, right.documents):
            return False
        within = ROUNDING if promise is Promise.ROUNDED else 0
        own = scores[answer.documents]
        return bool(
            len(np.unique(answer.documents)) == len(answer.documents)
            and np.allclose(answer.scores, right.scores, rtol=0, atol=within)
            and np.allclose(own, answer.scores, rtol=0, atol=within)
        )

    def _overlap(self, answer: Answer, right: Answer, scores: NDArray[np.number]) -> float:
        if not len(right.documents):
            return 1.0
        wanted = min(AT, len(right.documents))
        least = right.scores[wanted - 1]
        if np.issubdtype(scores.dtype, np.floating):
            least -= ROUNDING / 10
        found = np.unique(answer.documents[:wanted])
        return float((scores[found] >= least).sum() / wanted)

"""kANNolo: every image's terms side by side, scored one after the other or along a graph."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from kannolo import SparseFlatIndex, SparsePlainHNSW

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from sparta.errors import InputError

FILE = "index"
EXACT_BITS = 11
NEIGHBOURS, CANDIDATES_BUILT = 32, 200
CANDIDATES = 200  # that a search keeps, and k at least


class KannoloFlat(Engine[Corpus]):
    """All images, with values that it rounds to some 11 bits."""

    settings = "kannolo 0.15: SparseFlatIndex, every image scored"
    promise = Promise.SCORES
    kind: ClassVar[Any] = SparseFlatIndex
    options: ClassVar[dict[str, int]] = {}

    def build(self) -> None:
        """Pass the images to the library, all at once.

        Raises:
            InputError: if impacts would be rounded where exact answers are promised.
        """
        if self.promise is Promise.SCORES and self.data.bits > EXACT_BITS:
            raise InputError(
                f"--engines kannolo-flat rounds impacts of over {EXACT_BITS} bits, and the index "
                f"has {self.data.bits}: leave it out, or build the index with --bits 8"
            )
        chunks = list(self.data.rows())
        lengths = np.concatenate([np.diff(rows.starts) for rows in chunks])
        made = self.kind.build_from_arrays(
            np.concatenate([rows.terms for rows in chunks]),
            np.concatenate([rows.impacts.astype(np.float32) for rows in chunks]),
            np.concatenate([[0], np.cumsum(lengths)]),
            **self.options,
        )
        made.save(str(self.folder / FILE))

    def open(self) -> None:
        """Read the index, and how many terms it has: others in a query end the process."""
        self._index = self.kind.load(str(self.folder / FILE))
        self._terms = 1 + max(int(rows.terms.max(initial=-1)) for rows in self.data.rows())

    def search(self, query: TermQuery, k: int) -> Answer:
        """Ask with the terms' counts as weights."""
        return self._found(self._ask(query, k))

    def _ask(self, query: TermQuery, k: int) -> tuple[Any, Any]:
        answer: tuple[Any, Any] = self._index.search(*self._vector(query), k)
        return answer

    def _vector(self, query: TermQuery) -> tuple[np.ndarray, np.ndarray]:
        """A query's terms, rising, and their counts."""
        terms = sorted(term for term in query.terms if term < self._terms)
        return np.array(terms, np.int32), np.array([query.terms[t] for t in terms], np.float32)

    def _found(self, answer: tuple[Any, Any]) -> Answer:
        scores, images = answer
        found = (images >= 0) & (scores > 0)  # the rest is padding, or shares no term
        return Answer(images[found], scores[found])


class KannoloHnsw(KannoloFlat):
    """A graph of near images."""

    settings = (
        f"kannolo 0.15: SparsePlainHNSW, m {NEIGHBOURS}, ef_construction {CANDIDATES_BUILT}, "
        f"ef_search {CANDIDATES} and k at least"
    )
    promise = Promise.NEAR
    kind = SparsePlainHNSW
    options: ClassVar[dict[str, int]] = {"m": NEIGHBOURS, "ef_construction": CANDIDATES_BUILT}

    def _ask(self, query: TermQuery, k: int) -> tuple[Any, Any]:
        answer: tuple[Any, Any] = self._index.search(
            *self._vector(query), k, ef_search=max(CANDIDATES, k)
        )
        return answer

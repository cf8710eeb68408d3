"""The reference scorer: one sparse product scores every image; slow, obvious, exact."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.grounding import Grounding
from indexer.postings import Postings
from indexer.query.parse import plain_text
from indexer.query.query import Query
from indexer.search.api import (
    Allowed,
    Explanation,
    Hit,
    SearchResult,
    SimilarResult,
    Substitution,
    TermExplanation,
    Timings,
    UnknownImageError,
    ids_of,
)
from indexer.search.terms.query_by_image import images_and_words
from sparta.tokenizer import TokenisedQuery, Word, WordPieceTokenizer
from tests.reference.winner import winner


class ReferenceSearcher:
    """An explaining `Searcher` over postings in memory: equation 15 on integers, ties by id."""

    def __init__(
        self,
        postings: Postings,
        tokenizer: WordPieceTokenizer,
        substitutes: Mapping[str, Sequence[tuple[str, float]]] | None = None,
        rare: Set[str] = frozenset(),
    ) -> None:
        shape = (len(postings), len(tokenizer.vocabulary))
        self._impacts = csr_array(
            (postings.impacts.astype(np.int64), postings.terms, postings.starts), shape=shape
        )
        self._postings = postings
        self._rows = {image_id: row for row, image_id in enumerate(postings.ids)}
        self._places = np.argsort(np.argsort(np.array(postings.ids, dtype=object)))
        self._tokenizer = tokenizer
        self._term_ids = {term: i for i, term in enumerate(tokenizer.vocabulary)}
        self._frequencies = np.bincount(postings.terms, minlength=shape[1])
        self._substitutes = substitutes or {}
        self._rare = rare

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k best images; see `Searcher.search`. It has no operators."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        text = plain_text(query)
        parsed, found = self._replace(self._tokenizer.encode_query(text), substitute)
        tokenised = time.perf_counter()
        hits = [
            Hit(rank, self._postings.ids[row], score, self._postings.metadata[row])
            for rank, (row, score) in enumerate(self.top(parsed.terms, k, allowed), start=1)
        ]
        end = time.perf_counter()
        timings = Timings(*(1000 * t for t in (tokenised - start, end - tokenised, end - start)))
        return SearchResult(
            hits,
            self._unknown(parsed),
            timings,
            rare=self._seldom(parsed),
            substitutions=list(dict.fromkeys(found)),
        )

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        """The k images most similar to indexed ones; see `Searcher.similar`. No operators."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        rows = [self._row(one) for one in ids_of(image_id)]
        images = list(self._postings)
        added: dict[str, int] = {}
        for row in rows:
            terms = [self._tokenizer.vocabulary[term] for term in images[row].terms]
            for term, impact in zip(terms, images[row].impacts.tolist(), strict=True):
                added[term] = added.get(term, 0) + impact
        query = images_and_words(added, self._tokenizer.encode_query(plain_text(words)).pieces)
        read = time.perf_counter()
        hits: list[Hit] = []
        for other, score in self.top(query, len(self), allowed):
            if other not in rows and len(hits) < k:
                found, metadata = self._postings.ids[other], self._postings.metadata[other]
                hits.append(Hit(len(hits) + 1, found, score, metadata))
        end = time.perf_counter()
        timings = Timings(*(1000 * t for t in (read - start, end - read, end - start)))
        return SimilarResult(hits, [], timings, query)

    def top(
        self, terms: Mapping[str, int], k: int, allowed: Allowed | None = None
    ) -> list[tuple[int, float]]:
        """Rows and scores of the k best images of those that share a term with the query.

        Args:
            terms: of the query, with their counts.
            k: images at most.
            allowed: [N] by the place of the image in the order of ids; None for all.
        """
        counts = np.zeros(self._impacts.shape[1], np.int64)
        for term, count in terms.items():
            counts[self._term_ids[term]] = count
        scores: NDArray[np.int64] = np.asarray(self._impacts @ counts)
        if allowed is not None:
            scores = scores * allowed[self._places]
        best = np.lexsort((self._places, -scores))[:k]
        return [(int(row), float(scores[row])) for row in best if scores[row] > 0]

    def _known(self, term: str) -> bool:
        return term in self._term_ids and self._frequencies[self._term_ids[term]] > 0

    def _replace(
        self, query: TokenisedQuery, substitute: bool
    ) -> tuple[TokenisedQuery, list[Substitution]]:
        """The query with each word that has no posting as its first substitute that has one."""
        words, found = [], []
        for word in query.words:
            near = self._substitutes.get("".join(word.pieces), ())
            near = [(term, similarity) for term, similarity in near if self._known(term)]
            if substitute and near and not any(map(self._known, word.pieces)):
                found.append(Substitution(word.text, *near[0]))
                word = Word(word.text, (near[0][0],))
            words.append(word)
        return TokenisedQuery(query.text, tuple(words)), found

    def _seldom(self, query: TokenisedQuery) -> list[str]:
        """Known words, or their substitutes, of which a piece is rare, each once."""
        words = [word for word in query.words if any(map(self._known, word.pieces))]
        return list(dict.fromkeys(w.text for w in words if not self._rare.isdisjoint(w.pieces)))

    def _unknown(self, query: TokenisedQuery) -> list[str]:
        words = [
            word.text
            for word in query.words
            if not any(self._frequencies[self._term_ids[piece]] for piece in word.pieces)
        ]
        return list(dict.fromkeys(words))

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score; see `Explainer.explain`."""
        typed = self._tokenizer.encode_query(plain_text(query))
        parsed, found = self._replace(typed, substitute)
        replaced = {one.term: one.word for one in reversed(found)}
        words = {piece: word.text for word in reversed(typed.words) for piece in word.pieces}
        near = {one.term: one.similarity for one in reversed(found) if one.term not in words}
        return self._explain(parsed.terms, replaced | words, image_id, near)

    def explain_all(
        self,
        query: str | Query | Mapping[str, int],
        image_ids: Sequence[str],
        *,
        substitute: bool = True,
    ) -> list[Explanation]:
        """Explain many images' scores, one by one; see `Explainer.explain_all`."""
        if isinstance(query, str | Query):
            return [self.explain(query, image_id, substitute=substitute) for image_id in image_ids]
        words = {term: term for term in query}
        return [self._explain(query, words, image_id, {}) for image_id in image_ids]

    def _explain(
        self,
        counts: Mapping[str, int],
        words: Mapping[str, str],
        image_id: str,
        near: Mapping[str, float],
    ) -> Explanation:
        row = self._row(image_id)
        image = list(self._postings)[row]
        grounding = Grounding(image.terms, image.positions, image.inputs)
        terms = []
        for term, count in counts.items():
            impact = int(self._impacts[row, self._term_ids[term]])
            won = winner(grounding, self._term_ids[term], self._tokenizer.vocabulary)
            score = float(count * impact)
            found = (words[term], count, impact, score, *won, near.get(term))
            terms.append(TermExplanation(term, *found))
        return Explanation(image_id, sum(term.score for term in terms), terms)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self._postings.metadata[self._row(image_id)]

    def _row(self, image_id: str) -> int:
        if image_id not in self._rows:
            raise UnknownImageError(image_id)
        return self._rows[image_id]

    def __len__(self) -> int:
        return len(self._postings)

    def close(self) -> None:
        """Nothing is open."""

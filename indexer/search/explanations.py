"""Explanations of scores: a query's terms, an image's impacts for them, and what won them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.answer import Answer, RefusedError, TermExplanation
from indexer.grounding import UNKNOWN, Winner
from indexer.search.engine import AskDocuments, Documents, Needs
from indexer.search.reader import ReadWord, coverages, had
from sparta.errors import InputError, first_line
from sparta.json_values import Json

AT_ONCE = 100  # hits


class Explain(NamedTuple):
    """How hits are explained.

    Attributes:
        grounded: whether explanations say what won each term.
        most: terms of all hits together at most; None for any number.
        check: called between some hundred hits; what it raises ends the search.
    """

    grounded: bool = True
    most: int | None = None
    check: Callable[[], None] = lambda: None


class Explained(NamedTuple):
    """The score of one image for a query.

    Attributes:
        score: of the image.
        terms: of the query, those of excluded words last.
        coverage: share of the query's weight; None for a query without words.
        against: words for which a search leaves the image out, with their signs.
    """

    score: float
    terms: list[TermExplanation]
    coverage: float | None
    against: list[str]


class Explaining:
    """Explains the scores of images for one query.

    Args:
        ask: for what an index stores of images.
        vocabulary: [V] terms in id order.
        words: of a text.
        needs: of the words, weighed.
        counts: vocabulary id → count, of a query that is no text.
    """

    def __init__(
        self,
        ask: AskDocuments,
        vocabulary: Sequence[str],
        words: Sequence[ReadWord],
        needs: Sequence[Needs],
        counts: Mapping[int, int],
    ) -> None:
        self._ask, self._vocabulary, self._words, self._needs = ask, vocabulary, words, needs
        found = [
            *self._terms_of([word for word in words if word.times]),
            *self._terms_of([word for word in words if not word.times]),
        ]
        for term, count in counts.items():
            own = vocabulary[term]
            found.append((term, TermExplanation(own, own, count, 0, 0.0, None, None, None)))
        self._term_ids = [term for term, _ in found]
        self._absent = [one for _, one in found]

    def _terms_of(self, words: Sequence[ReadWord]) -> Iterator[tuple[int, TermExplanation]]:
        """The terms of words, each with the first word that contains it, else that it replaces."""
        ordered = sorted(words, key=lambda word: word.substitution is not None)
        sources = {term: word for word in reversed(ordered) for term in word.terms}
        counts: dict[int, int] = {}
        for word in words:
            for term in word.terms:
                counts[term] = counts.get(term, 0) + word.times
        for term, count in counts.items():
            word, own = sources[term], self._vocabulary[term]
            near = word.substitution.similarity if word.substitution else None
            absent = (0, 0.0, None, None, None)
            yield term, TermExplanation(own, word.text, count, *absent, near, word.sign)

    def of(self, image_id: str) -> tuple[Explained, Json]:
        """The explanation of one image, and its metadata."""
        found = self._ask([image_id], self._term_ids, True)
        return self._explain(found)[0], found.metadata[0]

    def add_to(self, answer: Answer, how: Explain | None) -> None:
        """Give the hits of an answer their coverages, and explanations unless `how` is None.

        Raises:
            RefusedError: if all hits together have too many terms.
            InputError: if a grounding is damaged.
        """
        start, hits, terms = perf_counter(), answer.hits, self._term_ids
        if how is not None and how.most is not None and len(hits) * len(terms) > how.most:
            raise RefusedError(
                "explain",
                f"{len(hits)} hits of {len(terms)} terms are too many; ask for "
                f"{how.most // len(terms)} hits or a shorter query",
            )
        for first in range(0, len(hits), AT_ONCE):
            some = hits[first : first + AT_ONCE]
            ids = [hit.image_id for hit in some]
            if how is None:
                impacts = self._ask(ids, terms, False).impacts
                having = had(self._needs, terms, impacts)
                for hit, coverage in zip(
                    some, coverages(self._needs, having, len(some)), strict=True
                ):
                    hit.coverage = coverage
                continue
            how.check()
            found = self._ask(ids, terms, how.grounded)
            for hit, one in zip(some, self._explain(found), strict=True):
                hit.coverage, hit.explanation = one.coverage, one.terms
        if how is not None:
            answer.timings.explain_ms = (perf_counter() - start) * 1000

    def _explain(self, found: Documents) -> list[Explained]:
        """[d] the explanations of images, with their groundings if these were asked for."""
        impacts = found.impacts
        counts = np.array([term.count for term in self._absent], np.int64)
        scores = (impacts * counts).astype(float)
        terms = [list(self._absent) for _ in impacts]  # which explanations share
        rows, places = impacts.nonzero()
        for row, place, impact, score, winner in zip(
            rows.tolist(),
            places.tolist(),
            impacts[rows, places].tolist(),
            scores[rows, places].tolist(),
            self._winners(found),
            strict=True,
        ):
            of = self._absent[place]
            terms[row][place] = TermExplanation(
                of.term, of.word, of.count, impact, score, *winner, of.similarity, of.sign
            )
        sums = scores.sum(axis=1).tolist()
        if not self._words:
            return [Explained(score, own, None, []) for score, own in zip(sums, terms, strict=True)]
        having = had(self._needs, self._term_ids, impacts)
        signed = [
            (word.sign + word.text, own != needs.required)
            for word, needs, own in zip(self._words, self._needs, having, strict=True)
            if needs.required is not None
        ]
        shares = coverages(self._needs, having, len(impacts))
        return [
            Explained(score, own, share, [text for text, out in signed if out[image]])
            for image, (score, own, share) in enumerate(zip(sums, terms, shares, strict=True))
        ]

    def _winners(self, found: Documents) -> list[Winner]:
        """What won the impacts that are not 0, image by image."""
        if found.groundings is None:
            return [UNKNOWN] * int(np.count_nonzero(found.impacts))
        from indexer.grounding import winners  # which a search without explanations does not need

        ids: NDArray[np.int64] = np.array(self._term_ids, np.int64)
        try:
            return winners(found.groundings, ids, found.impacts > 0, self._vocabulary)
        except (ValueError, IndexError, struct.error) as error:
            raise InputError(
                f"the grounding of an image is damaged ({first_line(error)}): restore a snapshot, "
                "or build the index again"
            ) from error

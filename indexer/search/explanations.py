"""Explanations of scores: a query's terms, an image's impacts for them, and what won them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import UNKNOWN, Winner
from indexer.search.answer import TermExplanation
from indexer.search.engine import Documents, Needs
from indexer.search.reader import ReadWord, coverages, had
from sparta.errors import InputError, first_line


class Explained(NamedTuple):
    """What is known of one image's score for a query.

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

    Attributes:
        term_ids: [m] the query's terms, those of excluded words last.

    Args:
        vocabulary: [V] terms in id order.
        words: of a text.
        needs: of the words, weighed.
        counts: vocabulary id → count, of a query that is no text.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        words: Sequence[ReadWord],
        needs: Sequence[Needs],
        counts: Mapping[int, int],
    ) -> None:
        self._vocabulary, self._words, self._needs = vocabulary, words, needs
        found = [
            *self._terms_of([word for word in words if word.sign != "-"]),
            *self._terms_of([word for word in words if word.sign == "-"]),
        ]
        for term, count in counts.items():
            own = vocabulary[term]
            found.append((term, TermExplanation(own, own, count, 0, 0.0, None, None, None)))
        self.term_ids = [term for term, _ in found]
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
            word = sources[term]
            near = word.substitution.similarity if word.substitution else None
            own = self._vocabulary[term]
            yield (
                term,
                TermExplanation(own, word.text, count, 0, 0.0, None, None, None, near, word.sign),
            )

    def coverages(self, found: Documents) -> list[float]:
        """[d] the coverages of some images."""
        own = had(self._needs, self.term_ids, found.impacts)
        return coverages(self._needs, own, len(found.impacts))

    def explain(self, found: Documents) -> list[Explained]:
        """[d] the explanations of some images.

        Args:
            found: the images, with `term_ids` and their groundings if these are wanted.

        Raises:
            InputError: if a grounding is damaged.
        """
        impacts = found.impacts
        counts = np.array([term.count for term in self._absent], np.int64)
        scores = (impacts * counts).astype(float)
        terms = [list(self._absent) for _ in impacts]  # which explanations share
        rows, places = impacts.nonzero()
        for row, place, impact, score, (region, box, label) in zip(
            rows.tolist(),
            places.tolist(),
            impacts[rows, places].tolist(),
            scores[rows, places].tolist(),
            self._winners(found),
            strict=True,
        ):
            of = self._absent[place]
            terms[row][place] = TermExplanation(
                of.term,
                of.word,
                of.count,
                impact,
                score,
                region,
                box,
                label,
                of.similarity,
                of.sign,
            )
        sums = scores.sum(axis=1).tolist()
        if not self._words:
            return [Explained(score, own, None, []) for score, own in zip(sums, terms, strict=True)]
        having = had(self._needs, self.term_ids, impacts)
        signed = [
            (word.sign + word.text, own == (word.sign == "-"))
            for word, own in zip(self._words, having, strict=True)
            if word.sign
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

        ids: NDArray[np.int64] = np.array(self.term_ids, np.int64)
        try:
            return winners(found.groundings, ids, found.impacts > 0, self._vocabulary)
        except (ValueError, IndexError, struct.error) as error:
            raise InputError(
                f"the grounding of an image is damaged ({first_line(error)}): restore a snapshot, "
                "or build the index again"
            ) from error

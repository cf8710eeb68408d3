"""Explanations of scores: a query's terms, their impacts, and what won them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import Winner
from indexer.search.api import Explanation, TermExplanation
from indexer.search.query_reader import ReadWord


def terms_of_words(words: Sequence[ReadWord]) -> list[TermExplanation]:
    """The terms of a text, each with the first word that contains it, else that it replaces.

    Returns:
        explanations of an image that has none of the terms.
    """
    ordered = sorted(words, key=lambda word: word.substitution is not None)
    sources = {term: word for word in reversed(ordered) for term in word.terms}
    terms = []
    for term, count in Counter(term for word in words for term in word.terms).items():
        word = sources[term]
        similarity = word.substitution.similarity if word.substitution else None
        terms.append(replace(_absent(term, word.text, count), similarity=similarity))
    return terms


def terms_of_counts(counts: Mapping[str, int]) -> list[TermExplanation]:
    """Terms of the index with their counts, as `terms_of_words` returns them."""
    return [_absent(term, term, count) for term, count in counts.items()]


def _absent(term: str, word: str, count: int) -> TermExplanation:
    return TermExplanation(term, word, count, 0, 0.0, None, None, None)


def explanation(
    image_id: str,
    absent: Sequence[TermExplanation],
    impacts: NDArray[np.int64],
    ids: NDArray[np.int64],
    winners: Callable[[NDArray[np.int64]], list[Winner]],
) -> Explanation:
    """The score of an image.

    Args:
        image_id: of the image.
        absent: [m] the query's terms; of those that the image lacks, explanations share these.
        impacts: [m] of the image for the terms.
        ids: [m] of the terms in the vocabulary.
        winners: of the image, for some terms.
    """
    [present] = impacts.nonzero()
    terms = list(absent)
    for place, impact, (region, box, label) in zip(
        present.tolist(),
        impacts[present].tolist(),
        winners(ids[present]),
        strict=True,
    ):
        of = absent[place]
        score = float(of.count * impact)
        terms[place] = TermExplanation(
            of.term, of.word, of.count, impact, score, region, box, label, of.similarity
        )
    return Explanation(image_id, sum([term.score for term in terms]), terms)

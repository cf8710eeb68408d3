"""Explanations of scores: a query's terms, their impacts, and what won them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import Winner
from indexer.search.api import Explanation, TermExplanation
from indexer.search.terms.query_reader import ReadWord


def terms_of_words(words: Sequence[ReadWord]) -> list[TermExplanation]:
    """The terms of a text, each with the first word that contains it, else that it replaces.

    Returns:
        explanations of an image that has none of the terms, those of excluded words last.
    """
    searched = [word for word in words if word.sign != "-"]
    excluded = [word for word in words if word.sign == "-"]
    return [*_terms(searched), *_terms(excluded)]


def _terms(words: Sequence[ReadWord]) -> Iterator[TermExplanation]:
    ordered = sorted(words, key=lambda word: word.substitution is not None)
    sources = {term: word for word in reversed(ordered) for term in word.terms}
    counts = Counter[str]()
    for word in words:
        for term in word.terms:
            counts[term] += word.times
    for term, count in counts.items():
        word = sources[term]
        similarity = word.substitution.similarity if word.substitution else None
        absent = _absent(term, word.text, count)
        yield replace(absent, similarity=similarity, sign=word.sign)


def terms_of_counts(counts: Mapping[str, int]) -> list[TermExplanation]:
    """Terms of the index with their counts, as `terms_of_words` returns them."""
    return [_absent(term, term, count) for term, count in counts.items()]


def _absent(term: str, word: str, count: int) -> TermExplanation:
    return TermExplanation(term, word, count, 0, 0.0, None, None, None)


def explanations(
    image_ids: Sequence[str],
    absent: Sequence[TermExplanation],
    impacts: NDArray[np.int64],
    winners: Sequence[Winner],
) -> list[Explanation]:
    """The scores of some images.

    Args:
        image_ids: [d] of the images.
        absent: [m] the query's terms; of those that an image lacks, explanations share these.
        impacts: [d, m] of the images for the terms.
        winners: of the impacts that are not 0, row by row.
    """
    counts = np.array([term.count for term in absent], np.int64)
    scores = (impacts * counts).astype(float)
    terms = [list(absent) for _ in image_ids]
    rows, places = impacts.nonzero()
    for row, place, impact, score, (region, box, label) in zip(
        rows.tolist(),
        places.tolist(),
        impacts[rows, places].tolist(),
        scores[rows, places].tolist(),
        winners,
        strict=True,
    ):
        of = absent[place]
        terms[row][place] = TermExplanation(
            of.term, of.word, of.count, impact, score, region, box, label, of.similarity, of.sign
        )
    return list(map(Explanation, image_ids, scores.sum(axis=1).tolist(), terms))

"""An image as a query: its strongest terms, each counting as much as the image has of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

TERMS = 10  # of the image; see docs/results/query-by-image.md
# Counts add up to at most this, so that Lucene's float32 sums are whole numbers below 2^24, and
# so exact, even where impacts have 16 bits.
COUNTS = 256

Found = TypeVar("Found", int, float)


def image_query(impacts: Mapping[str, int], terms: int = TERMS) -> dict[str, int]:
    """What to ask for to find images like one.

    Args:
        impacts: of all terms of the image, in any fixed order, by which ties go.
        terms: to keep at most.

    Returns:
        the strongest terms, the strongest first, and how often the query holds each: in
        proportion to their impacts, 256 times in all at most.
    """
    strongest = sorted(impacts, key=lambda term: -impacts[term])[:terms]
    total = sum(impacts[term] for term in strongest)
    counts = {term: impacts[term] * COUNTS // total for term in strongest}
    return {term: count for term, count in counts.items() if count}


def repeated_terms(query: Mapping[str, int]) -> str:
    """A query's terms, each as often as it counts, with spaces between them."""
    return " ".join(" ".join([term] * count) for term, count in query.items())


def without_document(
    found: list[tuple[int, Found]], document: int, k: int
) -> list[tuple[int, Found]]:
    """The k best documents of k + 1 but for one, which need not be among them."""
    return [pair for pair in found if pair[0] != document][:k]

"""Query by image: the image's top ten terms as a weighted query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

TERMS = 10  # of the image; see docs/results/query-by-image.md
# Counts add up to at most this, so that Lucene's float32 sums are integers below 2^24, and thus
# exact, even for impacts of 16 bits.
COUNTS = 256

Found = TypeVar("Found", int, float)


def image_query(impacts: Mapping[str, int], terms: int = TERMS) -> dict[str, int]:
    """The query for images similar to one.

    Args:
        impacts: of all terms of the image, in any fixed order, which breaks ties.
        terms: how many to use at most.

    Returns:
        the top terms, the largest impact first, with their counts in proportion to their
        impacts, at most 256 in all.
    """
    strongest = sorted(impacts, key=lambda term: -impacts[term])[:terms]
    total = sum(impacts[term] for term in strongest)
    counts = {term: impacts[term] * COUNTS // total for term in strongest}
    return {term: count for term, count in counts.items() if count}


def repeated_terms(query: Mapping[str, int]) -> str:
    """A query's terms separated by spaces, each repeated as often as it counts."""
    return " ".join(" ".join([term] * count) for term, count in query.items())


def without_document(
    found: list[tuple[int, Found]], document: int, k: int
) -> list[tuple[int, Found]]:
    """The k best of k + 1 documents without one, which need not be among them."""
    return [pair for pair in found if pair[0] != document][:k]

"""Query by image: the top ten terms of one image or several as a weighted query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

TERMS = 10  # of the images; see docs/results/constants.md
# Counts add up to at most this, so that Lucene's float32 sums are integers below 2^24, and thus
# exact, even for impacts of 16 bits.
COUNTS = 256

Found = TypeVar("Found", int, float)


def image_query(
    impacts: Mapping[str, int], terms: int = TERMS, counts: int = COUNTS
) -> dict[str, int]:
    """The query for images similar to one, or to several, whose impacts are added.

    Args:
        impacts: of all terms of the images, in any fixed order, which breaks ties.
        terms: how many to use at most.
        counts: what the counts add up to at most.

    Returns:
        the top terms, the largest impact first, with their counts in proportion to their impacts.
    """
    strongest = sorted(impacts, key=lambda term: -impacts[term])[:terms]
    return _shares({term: impacts[term] for term in strongest}, counts)


def images_and_words(impacts: Mapping[str, int], words: Iterable[str]) -> dict[str, int]:
    """The query for images similar to some, and to words as well; both have half of the weight.

    Args:
        impacts: of all terms of the images, added.
        words: terms of the words; one twice counts twice.
    """
    counted = Counter(words)
    if not counted:
        return image_query(impacts)
    query = Counter(image_query(impacts, counts=COUNTS // 2))
    query.update(_shares(counted, COUNTS // 2))
    return dict(query.most_common())


def _shares(weights: Mapping[str, int], counts: int) -> dict[str, int]:
    total = sum(weights.values())
    shares = {term: weight * counts // total for term, weight in weights.items()}
    return {term: share for term, share in shares.items() if share}


def repeated_terms(query: Mapping[str, int]) -> str:
    """A query's terms separated by spaces, each repeated as often as it counts."""
    return " ".join(" ".join([term] * count) for term, count in query.items())


def without_documents(
    found: list[tuple[int, Found]], documents: Collection[int], k: int
) -> list[tuple[int, Found]]:
    """The k best of a list without some documents, which need not be in it."""
    return [pair for pair in found if pair[0] not in documents][:k]

"""Pages of hits that follow one another while the index is written to.

A page begins after the last hit of the page before, wherever that hit would be now: no image that
stays as it is comes twice, and none is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from indexer.search.api import SearchResult

DEEPEST = 10_000  # hits until the last one that a page may have


class Position(NamedTuple):
    """The place of a hit in an order.

    Attributes:
        value: its score, or its value in the field that sorts; None if it has none there.
        image_id: which decides between equal values.
        rank: the hit's; the next page counts on from it.
    """

    value: float | str | None
    image_id: str
    rank: int

    def before(self, value: float | str | None, image_id: str, falling: bool) -> bool:
        """Whether something else comes later in the order.

        Raises:
            TypeError: if one value is a text and the other is not.
        """
        if value == self.value:
            return image_id > self.image_id
        if value is None or self.value is None:
            return value is None
        return (value < self.value) == falling  # type: ignore[operator]


def page_after(search: Callable[[int], SearchResult], k: int, after: Position) -> SearchResult:
    """The k hits of a search that follow a place in its ranking.

    Args:
        search: for the best of a number of hits, which falls by score, ties by image id.
        k: hits at most.
        after: the place.
    """
    wanted = after.rank + k
    while True:
        result = search(wanted)
        later = [hit for hit in result.hits if after.before(hit.score, hit.image_id, falling=True)]
        # Images that came meanwhile have pushed others behind those looked at.
        if len(later) >= k or len(result.hits) < wanted:
            break
        wanted *= 2
    result.hits = later[:k]
    for rank, hit in enumerate(result.hits, start=after.rank + 1):
        hit.rank = rank
    return result

"""The best rows of a server that returns only so many, and decides itself among equal scores."""

from __future__ import annotations

from collections.abc import Callable

from indexer.milvus.collection import MOST_ROWS
from indexer.search.api import UnanswerableError

GROWTH = 4  # of the number of rows from one call to the next

Row = tuple[float, str]  # score, key


def best_rows(
    nearest: Callable[[int, str], list[Row]],
    k: int,
    limit: int,
    wanted: Callable[[str], bool],
    most: int = MOST_ROWS,
) -> list[Row]:
    """The k best rows that are wanted, by score and then by key.

    Where the last row of an answer has the score of the k-th best, others with this score may be
    missing, of which those with smaller keys than the k-th matter: these are asked for, until no
    answer ends so. Where too few rows are wanted, more are asked for.

    Args:
        nearest: the rows with the largest scores, descending: how many at most, and the key below
            which theirs are, "" for any. Of rows with the last score it may return any.
        k: rows at most.
        limit: rows of the first answer.
        wanted: whether a row with a key counts.
        most: rows that an answer can have.

    Raises:
        UnanswerableError: if the rows that the server returns are not enough.
    """
    below, best = "", list[Row]()
    limit = min(limit, most)
    while True:
        found = nearest(limit, below)
        best = sorted({*best, *(row for row in found if wanted(row[1]))}, key=_order)[:k]
        if len(found) < limit or (len(best) == k and best[-1][0] > found[-1][0]):
            return best
        # All rows with a larger score than the k-th are known, and of those with its score all
        # that the next answer does not have are behind it.
        nearer = len(best) == k and best[-1][0] == found[-1][0] and best[-1][1] != below
        if not nearer and limit == most:
            raise UnanswerableError(
                f"Milvus returns at most {most:,} images, of which the filter and the signs of the "
                f"words leave {len(best):,}: let them leave at most {most:,} of all images, or "
                "search sparta"
            )
        below = best[-1][1] if nearer else below
        limit = min(limit * GROWTH, most)


def _order(row: Row) -> tuple[float, str]:
    return -row[0], row[1]

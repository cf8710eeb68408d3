"""The best rows are exact, whatever a server does with equal scores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.milvus.finder import Row, best_rows
from indexer.search.api import UnanswerableError

rows = st.lists(st.integers(1, 3), max_size=60).map(
    lambda scores: [(float(score), f"{number:02}") for number, score in enumerate(scores)]
)


def right(rows: list[Row], k: int) -> list[Row]:
    return sorted(rows, key=lambda row: (-row[0], row[1]))[:k]


class Server:
    """Returns rows by score, of equal ones those with the largest keys: the worst order there is.

    Attributes:
        answers: rows of each answer.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows, self.answers = rows, list[int]()

    def nearest(self, limit: int, below: str) -> list[Row]:
        some = [row for row in self.rows if not below or row[1] < below]
        found = sorted(some, reverse=True)[:limit]
        self.answers.append(len(found))
        return found


@given(rows, st.integers(1, 20), st.integers(1, 30), st.integers(20, 30))
def test_ties_are_decided_by_the_key(rows: list[Row], k: int, limit: int, most: int) -> None:
    server = Server(rows)
    assert best_rows(server.nearest, k, limit, lambda key: True, most) == right(rows, k)


@given(
    rows, st.integers(1, 20), st.integers(1, 30), st.integers(20, 60), st.sets(st.integers(0, 59))
)
def test_rows_that_are_not_wanted_are_left_out(
    rows: list[Row], k: int, limit: int, most: int, out: set[int]
) -> None:
    def wanted(key: str) -> bool:
        return int(key) not in out

    some = [row for row in rows if wanted(row[1])]
    try:
        assert best_rows(Server(rows).nearest, k, limit, wanted, most) == right(some, k)
    except UnanswerableError:
        assert len(rows) >= most, "all rows would have been returned"


def test_few_answers_are_needed() -> None:
    server = Server([(1.0, f"{number:05}") for number in range(5000)])
    found = best_rows(server.nearest, 10, 60, lambda key: True)
    assert found == right(server.rows, 10)
    assert server.answers == [60, 240, 960, 3767]
    server = Server([(float(number), f"{number:05}") for number in range(5000)])
    best_rows(server.nearest, 10, 60, lambda key: True)
    assert server.answers == [60]


def test_too_few_rows_are_wanted() -> None:
    server = Server([(float(number), f"{number:02}") for number in range(60)])
    reason = r"at most 50 images, of which .* leave 2: let them leave at most 50 of all images"
    with pytest.raises(UnanswerableError, match=reason):
        best_rows(server.nearest, 3, 4, lambda key: int(key) % 25 == 0, 50)
    assert server.answers == [4, 16, 50]


def test_more_than_there_can_be_are_asked_for() -> None:
    few = [(1.0, "a"), (1.0, "b")]
    assert best_rows(Server(few).nearest, 100, 100, lambda key: True, 3) == few

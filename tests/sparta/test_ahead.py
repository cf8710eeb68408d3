import threading
from collections.abc import Iterator

import pytest

from sparta.features.extract.job import work_ahead


def test_results_are_in_order_and_a_few_values_ahead() -> None:
    drawn: list[int] = []

    def values() -> Iterator[int]:
        for value in range(20):
            drawn.append(value)
            yield value

    results = work_ahead(lambda value: value * value, values(), threads=3)
    assert next(results) == 0
    assert drawn == [0, 1, 2, 3]
    assert list(results) == [value * value for value in range(1, 20)]
    assert list(work_ahead(str, [])) == []


def test_two_values_are_worked_on_at_once() -> None:
    both = threading.Barrier(2, timeout=30)  # passed by two threads together or not at all
    assert sorted(work_ahead(lambda _: both.wait(), range(4))) == [0, 0, 1, 1]


def test_an_error_and_a_reader_that_stops_end_the_threads() -> None:
    before = threading.active_count()
    failing = work_ahead(lambda value: 1 // value, [2, 1, 0, 1])
    assert [next(failing), next(failing)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(failing)
    stopped = work_ahead(abs, range(-9, 0))
    assert next(stopped) == 9
    stopped.close()
    assert threading.active_count() == before

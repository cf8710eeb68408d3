"""Work on the values of a stream in threads, a few ahead of whoever reads the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Value = TypeVar("Value")
Result = TypeVar("Result")


def work_ahead(
    work: Callable[[Value], Result], values: Iterable[Value], threads: int = 2
) -> Generator[Result]:
    """The results of some work on each value, in order.

    While the reader is busy with one result, the threads work on the following. The values are
    drawn in the reader's thread.

    Args:
        work: called by several threads at once.
        values: drawn one by one, at most one more than there are threads ahead of the reader.
        threads: how many.
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for value in values:
            waiting.append(pool.submit(work, value))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)

"""The token bucket, on a clock that tests set."""

from __future__ import annotations

from multiprocessing import get_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.security import access
from server.security.access import Buckets, RateLimit


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(access, "monotonic", clock)
    return clock


def test_a_burst_and_then_the_rate(clock: Clock) -> None:
    limit = RateLimit(2, 3, Buckets())
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limit.take("b") == 0
    clock.now += 0.25
    assert limit.take("a") == 0.25
    clock.now += 0.25
    assert [limit.take("a") for _ in range(2)] == [0, 0.5]
    clock.now += 1000
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


@given(st.lists(st.sampled_from([0, 1, 3, 8]), max_size=60))
def test_the_same_as_counted_tokens(pauses: list[int]) -> None:
    """Compared with tokens that are counted; times are eighths of a second, which are exact."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(access, "monotonic", clock)
        limit = RateLimit(4, 5, Buckets())
        tokens = 5.0
        for pause in pauses:
            clock.now += pause / 8
            tokens = min(5.0, tokens + 4 * pause / 8)
            assert (limit.take("a") == 0) == (tokens >= 1)
            tokens -= tokens >= 1


def test_another_client_counts_only_where_both_cells_are_shared(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {b"a": b"\0\1\0\2", b"b": b"\0\1\0\3", b"c": b"\0\1\0\2"}

    class Hash:
        def __init__(self, name: bytes, **_: Any) -> None:
            self.name = name

        def digest(self) -> bytes:
            return digests[self.name]

    monkeypatch.setattr(access, "blake2b", Hash)
    limit = RateLimit(1, 1, Buckets())
    assert (limit.take("a"), limit.take("a"), limit.take("b"), limit.take("c")) == (0, 1, 0, 1)


def _take(buckets: Buckets, times: int) -> int:
    limit = RateLimit(0.001, 10, buckets)
    return sum(limit.take("a") == 0 for _ in range(times))


def _take_and_report(buckets: Buckets, times: int, found: Any) -> None:
    found.put(_take(buckets, times))


def test_workers_share_a_limit() -> None:
    context = get_context("spawn")
    buckets, found = Buckets(), context.Queue()
    worker = context.Process(target=_take_and_report, args=(buckets, 6, found))
    worker.start()
    assert found.get(timeout=30) == 6
    worker.join()
    assert _take(buckets, 6) == 4

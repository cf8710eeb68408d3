"""What is tried again, where and when: servers that fail in turn, under a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import httpx
import pytest

import sparta
from server.client import transport
from tests.server.client.conftest import Connect

A, B = "http://a.example", "http://b.example/photos"
Answer = Callable[[], httpx.Response]


def fine() -> httpx.Response:
    return httpx.Response(200, json={"backends": []})


def refused() -> httpx.Response:
    raise httpx.ConnectError("no route")


def late() -> httpx.Response:
    raise httpx.ReadTimeout("")


def busy(status: int = 503, retry_after: str | None = None) -> Answer:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda: httpx.Response(status, headers=headers)


class Clock:
    """A clock that stands still but for pauses, which it records."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        if seconds:
            self.pauses.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transport, "monotonic", lambda: clock.now)
    monkeypatch.setattr("time.sleep", clock.sleep)
    monkeypatch.setattr(anyio, "sleep", clock.asleep)
    return clock


class Script:
    """Answers requests from a list, the last one for ever; records which host was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host[0])
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()


def failure(client: Any, message: str) -> sparta.ClientError:
    with pytest.raises(sparta.ClientError, match=message) as error:
        client.list_backends()
    return error.value


def test_pauses_double_and_are_drawn_at_random(connect: Connect, clock: Clock) -> None:
    script = Script(busy(), busy(429), refused, late, busy(), fine)
    assert connect(A, script).list_backends() == []
    assert len(script.asked) == 6
    bounds = [0.25, 0.5, 1, 2, 4]
    assert all(b / 2 <= p <= b for p, b in zip(clock.pauses, bounds, strict=True))
    assert len({p / b for p, b in zip(clock.pauses, bounds, strict=True)}) == 5


def test_the_number_of_attempts_is_bounded(connect: Connect, clock: Clock) -> None:
    script = Script(busy(retry_after="1"))
    error = failure(connect(A, script, retries=2), r"answered 503, .*\(Retry-After: 1\)")
    assert (error.status, len(script.asked)) == (503, 3)
    error = failure(connect(A, Script(refused), retries=0), r"^http://a\.example does not answer:")
    assert error.status is None


def test_retry_after_is_the_least_pause(connect: Connect, clock: Clock) -> None:
    connect(A, Script(busy(429, retry_after="7"), busy(retry_after="soon"), fine)).list_backends()
    assert 7 < clock.pauses[0] < 7.5
    assert clock.pauses[1] <= 0.5


@pytest.mark.parametrize(
    ("status", "later"),
    [(status, None) for status in (400, 401, 403, 404, 422, 500, 502)] + [(429, "300")],
)
def test_other_errors_and_long_pauses_are_left_to_the_caller(
    connect: Connect, clock: Clock, status: int, later: str | None
) -> None:
    script = Script(busy(status, later))
    failure(connect(A, script), f"answered {status}.*{later or ''}")
    assert script.asked == ["a"] and clock.pauses == []


def test_servers_take_turns_and_keep_their_paths(connect: Connect) -> None:
    paths = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append(str(request.url))
        return fine()

    client = connect([A, B + "/"], handler)
    for _ in range(3):
        client.list_backends()
    assert paths == [f"{A}/v1/backends", f"{B}/v1/backends", f"{A}/v1/backends"]


def test_another_server_is_asked_at_once_and_the_failed_one_rests(
    connect: Connect, clock: Clock
) -> None:
    script = Script(refused, fine)
    client = connect([A, B], script)
    for _ in range(3):
        client.list_backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert clock.pauses == []
    clock.now += transport.REST
    script.asked.clear()
    for _ in range(2):
        client.list_backends()
    assert sorted(script.asked) == ["a", "b"]


def test_when_all_fail_the_one_that_is_back_first_is_asked(connect: Connect, clock: Clock) -> None:
    script = Script(busy(retry_after="20"), busy(retry_after="10"), busy(), fine)
    connect([A, B], script).list_backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert 10 < clock.pauses[0] < 10.25 and clock.pauses[1] <= 0.5


def test_a_date_is_a_retry_after_too() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60))
    assert transport.retry_after(busy(retry_after=soon)()) == pytest.approx(60, abs=5)
    assert transport.retry_after(busy(retry_after=past)()) == 0
    assert transport.retry_after(busy()()) is None

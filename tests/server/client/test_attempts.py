"""What is tried again, where and when: servers that fail in turn, under a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

import sparta
from server.client import attempts, servers
from server.client.attempts import retry_after
from tests.server.client.clients import connected

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
    for module in (servers, attempts):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    monkeypatch.setattr("server.client.client.time.sleep", clock.sleep)
    monkeypatch.setattr("server.client.async_client.anyio.sleep", clock.asleep)
    return clock


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Script:
    """Answers requests from a list, the last one for ever; records which host was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host[0])
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()


def failure(kind: str, script: Script, message: str, **options: int) -> sparta.ClientError:
    with (
        connected(kind, A, script, **options) as client,
        pytest.raises(sparta.ClientError, match=message) as error,
    ):
        client.list_backends()
    return error.value


def test_pauses_double_and_are_drawn_at_random(kind: str, clock: Clock) -> None:
    script = Script(busy(), busy(429), refused, late, busy(), fine)
    with connected(kind, A, script) as client:
        assert client.list_backends() == []
    assert len(script.asked) == 6
    bounds = [0.25, 0.5, 1, 2, 4]
    assert all(b / 2 <= p <= b for p, b in zip(clock.pauses, bounds, strict=True))
    assert len({p / b for p, b in zip(clock.pauses, bounds, strict=True)}) == 5


def test_the_number_of_attempts_is_bounded(kind: str, clock: Clock) -> None:
    script = Script(busy(retry_after="1"))
    with (
        connected(kind, A, script, retries=2) as client,
        pytest.raises(sparta.ClientError, match=r"answered 503, .*\(Retry-After: 1\)") as error,
    ):
        client.list_backends()
    assert error.value.status == 503
    assert len(script.asked) == 3
    with (
        connected(kind, A, Script(refused), retries=0) as client,
        pytest.raises(sparta.ClientError, match=r"^http://a\.example does not answer: no route"),
    ):
        client.list_backends()


def test_retry_after_is_the_least_pause(kind: str, clock: Clock) -> None:
    script = Script(busy(429, retry_after="7"), busy(retry_after="soon"), fine)
    with connected(kind, A, script) as client:
        client.list_backends()
    assert 7 < clock.pauses[0] < 7.5
    assert clock.pauses[1] <= 0.5


def test_a_long_retry_after_is_left_to_the_caller(kind: str, clock: Clock) -> None:
    script = Script(busy(429, retry_after="300"))
    failure(kind, script, r"429.*\(Retry-After: 300\)")
    assert script.asked == ["a"] and clock.pauses == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 500, 502])
def test_other_errors_are_final(kind: str, clock: Clock, status: int) -> None:
    script = Script(busy(status))
    failure(kind, script, f"answered {status}")
    assert script.asked == ["a"]


def test_servers_take_turns_and_keep_their_paths(kind: str, clock: Clock) -> None:
    paths = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append(str(request.url))
        return fine()

    with connected(kind, [A, B + "/"], handler) as client:
        for _ in range(3):
            client.list_backends()
    assert paths == [f"{A}/v1/backends", f"{B}/v1/backends", f"{A}/v1/backends"]


def test_another_server_is_asked_at_once_and_the_failed_one_rests(kind: str, clock: Clock) -> None:
    down = {"a"}

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host[0])
        if asked[-1] in down:
            return refused()
        return fine()

    asked: list[str] = []
    with connected(kind, [A, B], handler) as client:
        for _ in range(3):
            client.list_backends()
        assert asked == ["a", "b", "b", "b"]
        assert clock.pauses == []
        down.clear()
        clock.now += servers.REST
        asked.clear()
        for _ in range(2):
            client.list_backends()
        assert sorted(asked) == ["a", "b"]


def test_when_all_fail_the_one_that_is_back_first_is_asked(kind: str, clock: Clock) -> None:
    script = Script(busy(retry_after="20"), busy(retry_after="10"), busy(), fine)
    with connected(kind, [A, B], script) as client:
        client.list_backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert 10 < clock.pauses[0] < 10.25 and clock.pauses[1] <= 0.5


def test_a_date_is_a_retry_after_too() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60))
    assert retry_after(busy(retry_after=soon)()) == pytest.approx(60, abs=5)
    assert retry_after(busy(retry_after=past)()) == 0
    assert retry_after(busy()()) is None

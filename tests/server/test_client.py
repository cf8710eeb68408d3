"""What clients never send, what they try again, and what they load.

What each operation sends and answers is tested in `test_operations.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import httpx
import pytest

import sparta
from server.client import transport
from sparta.errors import InputError
from tests.server.conftest import Connect

LOCAL = "http://127.0.0.1:1"
OTHER = "not answer as a VisualSparta server"


@pytest.mark.parametrize("image_id", ["trash/../a.jpg", "./a.jpg", "/a.jpg", "a//b.jpg", "a/", ""])
def test_an_id_that_would_reach_another_image_is_not_sent(connect: Connect, image_id: str) -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    client = connect(LOCAL, never)
    for ask in (
        lambda: client.get_image(image_id),
        lambda: client.get_photo(image_id),
        lambda: client.get_thumbnail(image_id),
        lambda: client.similar(image_id),
        lambda: client.explain(image_id, "red"),
        lambda: client.put_photo(image_id, b"photo"),
        lambda: client.put_image(image_id, terms={"red": 1.0}),
        lambda: client.update_image(image_id, {"album": "Crete"}),
        lambda: client.delete_image(image_id),
    ):
        with pytest.raises(sparta.ClientError, match="nothing was sent"):
            ask()


def test_answers_of_other_programs(connect: Connect) -> None:
    problem = {"Content-Type": "application/problem+json"}
    answers = {
        "/v1/backends": httpx.Response(200, html="<p>Hello"),
        "/v1/images/a.jpg": httpx.Response(502, html="<p>Bad gateway"),
        "/v1/images/a.jpg/file": httpx.Response(200, html="<p>Hello"),
        "/v1/search": httpx.Response(400, content=b"{}", headers=problem),
        "/v1/images/a.jpg/similar": httpx.Response(302, headers={"Location": "/login"}),
    }
    client = connect(LOCAL, lambda request: answers[request.url.path])
    for ask, message, kind in (
        (client.backends, OTHER, None),
        (lambda: client.get_photo("a.jpg"), OTHER, None),
        (lambda: client.similar("a.jpg"), OTHER, None),
        (lambda: client.get_image("a.jpg"), "answered 502, Bad Gateway: the answer has no", ""),
        (lambda: client.search("red"), "answered 400, Bad Request", "about:blank"),
    ):
        with pytest.raises(sparta.ClientError, match=message) as e:
            ask()
        assert (e.value.problem is None) == (kind is None)
        assert not kind or (e.value.problem is not None and e.value.problem.type == kind)


@pytest.mark.parametrize("key", ["", "two words", "line\n", "schlüssel", "tab\t"])
def test_a_key_that_no_header_can_contain_is_not_shown(key: str) -> None:
    with pytest.raises(InputError, match="the API key has spaces") as error:
        sparta.Client(LOCAL, api_key=key)
    assert not key or key not in str(error.value)


def test_addresses_are_those_of_servers() -> None:
    for address in ("127.0.0.1:8000", "ftp://a.example", "http://", "index", "http://a?q=1"):
        with pytest.raises(InputError, match="not the address of a server; give one like http://"):
            sparta.Client(address)
    with pytest.raises(InputError, match="at least one server"):
        sparta.AsyncClient([])


def test_importing_a_client_loads_neither_server_nor_index() -> None:
    heavy = ["numpy", "fastapi", "starlette", "uvicorn", "PIL", "pyarrow", "torch"]
    program = f"""
import sys, sparta
sparta.Client, sparta.AsyncClient, sparta.ClientError
print(*[name for name in {heavy} if name in sys.modules])
ours = [name for name in sys.modules if name.startswith(("server.", "indexer."))]
print(*sorted(name for name in ours if name.count(".") == 1))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["", "indexer.answer server.client server.schemas"]


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
        self.paths: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host[0])
        self.paths.append(request.url.path)
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()


def failure(client: Any, message: str) -> sparta.ClientError:
    with pytest.raises(sparta.ClientError, match=message) as error:
        client.backends()
    return error.value


def test_pauses_double_and_are_drawn_at_random(connect: Connect, clock: Clock) -> None:
    script = Script(busy(), busy(429), refused, late, busy(), fine)
    assert connect(A, script).backends() == []
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
    connect(A, Script(busy(429, retry_after="7"), busy(retry_after="soon"), fine)).backends()
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


def test_another_server_is_asked_at_once_and_the_failed_one_rests(
    connect: Connect, clock: Clock
) -> None:
    script = Script(refused, fine)
    client = connect([A, B + "/"], script)
    for _ in range(3):
        client.backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert script.paths == ["/v1/backends", *["/photos/v1/backends"] * 3]
    assert clock.pauses == []
    clock.now += transport.REST
    script.asked.clear()
    for _ in range(2):
        client.backends()
    assert sorted(script.asked) == ["a", "b"]


def test_when_all_fail_the_one_that_is_back_first_is_asked(connect: Connect, clock: Clock) -> None:
    script = Script(busy(retry_after="20"), busy(retry_after="10"), busy(), fine)
    connect([A, B], script).backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert 10 < clock.pauses[0] < 10.25 and clock.pauses[1] <= 0.5


def test_a_date_is_a_retry_after_too() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60))
    assert transport.retry_after(busy(retry_after=soon)()) == pytest.approx(60, abs=5)
    assert transport.retry_after(busy(retry_after=past)()) == 0
    assert transport.retry_after(busy()()) is None

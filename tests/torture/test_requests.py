"""Hostile requests to a server of fakes, and wrong answers to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.backends import Backend
from server.sockets import listen, url
from tests.server.fake import FakeSearcher, draw
from tests.server.live import serving
from tests.torture import requests
from tests.torture.requests import check_answer, main, status_of, torment


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    photos = draw(tmp_path_factory.mktemp("photos"))
    with serving(Backend("sparta", FakeSearcher(), photos, quick=True)) as address:
        yield address


def test_a_server_withstands_them(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = torment(address, 150, seed=1)
    assert report.failures == []
    assert {200, 400, 404, 405, 422, 431} <= set(report.statuses)
    assert 0 < report.slowest_livez < requests.LIVEZ_BOUND
    assert main([address, "--requests", "5"]) == 0
    assert "slowest /livez" in capsys.readouterr().out


def test_a_slow_livez_is_a_failure(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requests, "LIVEZ_BOUND", 0.0)
    assert main([address, "--requests", "40"]) == 1
    assert "wrong: /livez took" in capsys.readouterr().out


def test_a_server_without_livez(tmp_path: Path) -> None:
    report = torment("http://127.0.0.1:1", 3)
    assert report.slowest_livez in (0.0, float("inf"))
    assert set(report.statuses) <= {0}


PROBLEM = b"HTTP/1.1 %d x\r\nContent-Type: application/problem+json\r\n%s\r\n%s"


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b"", None),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", None),
        (PROBLEM % (404, b"", b'{"status": 404}'), None),
        (PROBLEM % (503, b"Retry-After: 1\r\n", b'{"status": 503}'), None),
        (PROBLEM % (503, b"", b'{"status": 503}'), "status 503"),
        (PROBLEM % (500, b"", b'{"status": 500}'), "status 500"),
        (b"HTTP/1.1 404 x\r\nContent-Type: text/plain\r\n\r\nno", "status 404 with text/plain"),
        (b"HTTP/1.1 404 x\r\n\r\nno", "status 404 with None"),
        (PROBLEM % (404, b"", b'{"status": 400}'), "a problem of another status"),
        (PROBLEM % (404, b"", b"{"), "cannot be read"),
        (PROBLEM % (404, b"", b"[]"), "cannot be read"),
    ],
)
def test_answers(answer: bytes, wrong: str | None) -> None:
    found = check_answer(answer)
    assert found == wrong or (wrong and found and wrong in found)


def test_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "TIMEOUT", 0.1)
    with listen("127.0.0.1", 0) as socket:
        answer = requests.send(url("127.0.0.1", socket.getsockname()[1]), b"GET / HTTP/1.1")
    assert check_answer(answer) == "status 599"


def test_no_status() -> None:
    assert status_of(b"") == status_of(b"nonsense") == status_of(b"HTTP/1.1 x") == 0

"""Counts of searches that fall or are too low are found."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from eval.bench.soak import scrape as scraping
from eval.bench.soak.pauses import Over
from eval.bench.soak.scrape import scrape
from eval.bench.soak.tally import Tally

NAME = "visualsparta_search_duration_seconds_count"
LOST = "/metrics: searches were lost"


def failures(
    answers: list[str | int], monkeypatch: pytest.MonkeyPatch, received: int = 0
) -> dict[str, int]:
    """What is found where the metrics are these texts, or answered with these statuses."""
    monkeypatch.setattr(scraping, "EVERY", 0.01)
    tally, over = Tally(1), Over()
    for _ in range(received):
        tally.answered(0.1)
    left: Iterator[str | int] = iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        found = next(left, None)
        if found is None:
            over.set()
            return httpx.Response(200, text=f"{NAME} 1e9\n")
        if found == 0:
            raise httpx.ReadError("killed")
        return httpx.Response(found) if isinstance(found, int) else httpx.Response(200, text=found)

    async def run() -> None:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://server", transport=transport) as client:
            await scrape(client, 3, tally, over)

    asyncio.run(run())
    return dict(tally.failures)


def count(first: int, second: int) -> str:
    return f'# HELP\n{NAME}{{engine="a"}} {first}.0\n{NAME}{{engine="b"}} {second}.0\n'


def test_counts_that_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures([count(3, 0), 0, count(3, 4)], monkeypatch, 6) == {}


def test_counts_that_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures([count(3, 2), count(4, 0)], monkeypatch) == {LOST: 1}


def test_counts_below_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(["", count(2, 0)], monkeypatch, 6) == {LOST: 2}


def test_metrics_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures([403, 403], monkeypatch) == {"/metrics: status 403": 2}

"""Work in threads: limited, cancelled with its client, and never in the way of photos."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from indexer.query import Query
from indexer.search import searcher as searcher_module
from indexer.search.answer import Answer
from server.backends import Backend
from server.routes import answers as hits_module
from server.work import THREADS
from tests.server.apps import app_of, client_of
from tests.server.fake import FakeSearcher
from tests.server.live import serving
from tests.server.routes.test_search import Recording


class Slow(FakeSearcher):
    """Searches "slow" until it is released, and counts what it explains."""

    def __init__(self) -> None:
        super().__init__()
        self.release = Event()
        self.begun: list[str] = []
        self.explained = 0

    def search(self, query: str | Query, k: int = 10, **options: Any) -> Answer:
        if query == "slow":
            self.begun.append("slow")
            self.release.wait(20)
        answer = super().search("red", k, **options)
        self.explained += sum(hit.explanation is not None for hit in answer.hits)
        return answer


async def ask(address: str, target: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        return await client.get(target)


def test_photos_and_health_answer_while_all_threads_search(photos: Path) -> None:
    searcher, slow = Slow(), "/v1/search?q=slow"

    async def load(address: str) -> None:
        asked = [asyncio.create_task(ask(address, slow)) for _ in range(70)]
        while sum(task.done() for task in asked) < 6:
            await asyncio.sleep(0.01)
        for refused in [task.result() for task in asked if task.done()]:
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["content-type"] == "application/problem+json"
            assert refused.json()["type"].endswith("overloaded")
        for target in ("/livez", "/v1/images/garden/one.png/file", "/v1/backends", "/"):
            assert (await ask(address, target)).status_code == 200
        assert not searcher.release.is_set()
        searcher.release.set()
        answers = await asyncio.gather(*asked)
        assert [answer.status_code for answer in answers].count(200) == 64

    with serving(Backend("sparta", searcher, photos)) as address:
        asyncio.run(load(address))


def test_nothing_is_searched_and_explained_for_clients_that_have_gone(photos: Path) -> None:
    searcher, slow = Slow(), "search?q=slow&explain=true"

    async def hang_up(address: str) -> None:
        async with httpx.AsyncClient(base_url=f"{address}/v1/", timeout=1) as client:
            asked = [client.get(slow) for _ in range(THREADS + 20)]
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(answer, httpx.ReadTimeout)

    with serving(Backend("sparta", searcher, photos)) as address:
        asyncio.run(hang_up(address))
        for _ in range(3):  # when these are answered, the server has seen the clients go
            assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
        assert len(searcher.begun) == THREADS
        searcher.release.set()
    assert (len(searcher.begun), searcher.explained) == (THREADS, 0)
    with serving(Backend("sparta", searcher, photos)) as address:
        assert httpx.get(f"{address}/v1/{slow}", timeout=60).status_code == 200
    assert searcher.explained > 0


def test_too_many_terms_of_too_many_hits_are_not_explained(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hits_module, "MAX_EXPLAINED", 5)
    found = client.get("/v1/search?q=red green blue&explain=true")
    assert found.status_code == 422
    assert found.json()["field"] == "explain"
    assert "5 hits of 3 terms are too many; ask for 1 hit" in found.json()["detail"]
    assert client.get("/v1/search?q=red green blue&explain=true&k=1").status_code == 200


@pytest.mark.parametrize("target", ["search?q=red", "images/garden/one.png/similar?k=4"])
def test_explanations_are_the_same_in_parts(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    whole = client.get(f"/v1/{target}&explain=true").json()["hits"]
    monkeypatch.setattr(searcher_module, "EXPLAINED_AT_ONCE", 1)
    assert client.get(f"/v1/{target}&explain=true").json()["hits"] == whole
    assert all(hit["explanation"] for hit in whole)


@pytest.mark.parametrize(
    ("query", "quick"), [("q=red", True), ("q=red&k=101", False), ("q=" + "red " * 51, False)]
)
def test_long_queries_and_many_hits_leave_the_event_loop(query: str, quick: bool) -> None:
    searcher = Recording(quick=True)
    with client_of(app_of(Backend("sparta", searcher))) as client:
        assert client.get(f"/v1/search?{query}").status_code == 200
    assert searcher.in_loop is quick

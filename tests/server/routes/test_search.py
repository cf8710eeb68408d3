"""Search by text, in the event loop or in threads that are limited and cancelled; suggestions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from indexer.answer import Answer, RefusedError
from indexer.filters.syntax import MAX_LENGTH
from indexer.query import Query
from indexer.search import explanations
from indexer.search.engine import Capability
from server.backends import Backend
from server.routes import common
from server.routes.common import THREADS
from server.routes.search import SearchBody, SearchParameters
from tests.server.apps import app_of, client_of, serving
from tests.server.fake import FakeSearcher


def answer(client: TestClient, **params: Any) -> dict[str, Any]:
    response = client.get("/v1/search", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_urls_lead_to_the_photo_in_the_same_backend(client: TestClient) -> None:
    assert answer(client, q="red", backend="other one")["hits"][0]["url"] is None
    for hit in answer(client, q="red green blue", backend="third")["hits"]:
        assert hit["url"].endswith("/file?backend=third")
        assert client.get(hit["url"]).status_code == 200


# ---- where a search runs: in the event loop if it is quick, else in a thread ---------------------


class Recording(FakeSearcher):
    """Records whether the last search ran in an event loop."""

    def search(self, query: str | Query, k: int = 10, **options: Any) -> Answer:
        try:
            asyncio.get_running_loop()
            self.in_loop = True
        except RuntimeError:
            self.in_loop = False
        return super().search(query, k, **options)


@pytest.mark.parametrize(
    ("query", "quick"),
    [
        ("q=red", True),
        ("q=red&explain=true", False),
        ("q=red&k=101", False),
        ("q=" + "red " * 51, False),
    ],
)
def test_only_quick_searches_stay_in_the_event_loop(query: str, quick: bool) -> None:
    searcher = Recording(quick=True)
    with client_of(app_of(Backend("sparta", searcher))) as client:
        assert client.get(f"/v1/search?{query}").status_code == 200
        assert searcher.in_loop is quick
        searcher.can -= {Capability.QUICK}
        assert client.get(f"/v1/search?{query}").status_code == 200
        assert not searcher.in_loop


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
    monkeypatch.setattr(common, "MAX_EXPLAINED", 5)
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
    monkeypatch.setattr(explanations, "AT_ONCE", 1)
    assert client.get(f"/v1/{target}&explain=true").json()["hits"] == whole
    assert all(hit["explanation"] for hit in whole)


def test_a_server_that_stops_is_not_ready(client: TestClient) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    assert isinstance(client.app, FastAPI)
    client.app.state.stopping = True
    stopping = client.get("/readyz")
    assert stopping.status_code == 503
    assert stopping.json()["type"].endswith("stopping")
    assert client.get("/livez").json() == {"status": "ok"}


def test_searchers_are_closed_with_the_server(client: TestClient, searcher: FakeSearcher) -> None:
    assert not searcher.closed
    client.__exit__()
    assert searcher.closed


def test_json_is_compressed_and_photos_are_not(client: TestClient) -> None:
    for accepted, encoding in [("gzip", "gzip"), ("identity", None)]:
        headers = {"Accept-Encoding": accepted}
        found = client.get("/v1/search?q=red blue&explain=true", headers=headers)
        assert found.headers.get("content-encoding") == encoding
        assert "Accept-Encoding" in found.headers.get("vary", "")
        assert len(found.json()["hits"]) == 5
    headers = {"Accept-Encoding": "gzip"}
    small = client.get("/livez", headers=headers)
    photo = client.get("/v1/images/garden/one.png/file", headers=headers)
    assert int(photo.headers["content-length"]) == len(photo.content) > 500
    assert not {"content-encoding"} & {*small.headers, *photo.headers}
    page = client.get("/page/app.js", headers=headers)
    assert page.headers["content-encoding"] == "gzip"


# ---- by GET and by POST --------------------------------------------------------------------------

GET, POST = (model.model_json_schema() for model in (SearchParameters, SearchBody))
KEYWORDS = ("minimum", "maximum", "minLength", "maxLength", "maxItems", "pattern", "type", "anyOf")


def rules(declared: dict[str, Any], name: str) -> Any:
    """What a parameter may be, as far as JSON Schema says it."""
    found = {word: declared["properties"][name].get(word) for word in KEYWORDS}
    return {word: value for word, value in found.items() if value is not None}


def values_beyond(name: str) -> Iterator[tuple[Any, bool]]:
    """Values at each declared limit of a parameter, and just beyond; whether they are allowed."""
    for rule in [rules(POST, name), *rules(POST, name).get("anyOf", [])]:
        for word, step in (("minimum", -1), ("maximum", 1)):
            if word in rule:
                yield rule[word], True
                yield rule[word] + step, False
        if "maxLength" in rule:
            yield "a" * rule["maxLength"], True
            yield "a" * (rule["maxLength"] + 1), False
        if "maxItems" in rule:
            longest = POST["properties"][name]["items"]["maxLength"]
            yield ["a"] * rule["maxItems"], True
            yield ["a"] * (rule["maxItems"] + 1), False
            yield ["a" * (longest + 1)], False
    if name == "filter":
        yield "a:" + "b" * (MAX_LENGTH - 2), True
        yield "a:" + "b" * (MAX_LENGTH - 1), False


def test_get_and_post_declare_the_same_parameters() -> None:
    """But for facets, which GET separates by commas, and filters as JSON, which only POST takes."""
    assert GET["properties"].keys() == POST["properties"].keys()
    differing = {name for name in POST["properties"] if rules(GET, name) != rules(POST, name)}
    assert differing == {"facets", "filter"}
    limited = {name for name in POST["properties"] if [*values_beyond(name)]}
    assert limited >= {"q", "k", "offset", "facets", "filter", "rerank", "sort", "cursor"}


@pytest.mark.parametrize("name", POST["properties"])
def test_get_and_post_have_the_same_limits(client: TestClient, name: str) -> None:
    pattern = GET["properties"][name].get("pattern", "")
    for value, allowed in values_beyond(name):
        asked = {"q": "red"} | {name: value}
        text = ",".join(value) if isinstance(value, list) else value
        answers = client.get("/v1/search", params=asked | {name: text}), post(client, asked)
        problems = [(one.status_code, one.json().get("field"), detail(one)) for one in answers]
        assert problems[0] == problems[1]
        # What is allowed may be refused for what the index has not; never for its size.
        refused = re.search("at most|less than|greater than|too many", problems[0][2] or "")
        assert (refused is None) == allowed, problems[0]
        assert problems[0][1] in (None, name)
        if isinstance(value, list):
            assert (re.search(pattern, text) is not None) == allowed


def test_the_searcher_has_the_limit_of_facets(searcher: FakeSearcher) -> None:
    with pytest.raises(RefusedError, match="11 are too many; 10 are allowed"):
        searcher.search("red", facets=["width"] * 11)


def post(client: TestClient, asked: dict[str, Any]) -> Any:
    return client.post("/v1/search", json=asked)


def detail(answer: Any) -> str | None:
    """Of a problem, without the value that GET shows and POST does not."""
    found: str | None = answer.json().get("detail")
    return found and found.partition(" (found ")[0]

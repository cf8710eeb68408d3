"""Where a search runs: in the event loop if it is quick, else in a thread beside it."""

import asyncio
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from indexer.search.api import SearchResult
from server.app import create_app
from server.backends import Backend, Backends
from tests.server.fake import FakeSearcher


class Noting(FakeSearcher):
    """Notes of each search whether it ran in an event loop."""

    def search(self, query: str, k: int = 10) -> SearchResult:
        try:
            asyncio.get_running_loop()
            self.in_loop = True
        except RuntimeError:
            self.in_loop = False
        return super().search(query, k)


@pytest.mark.parametrize("quick", [False, True])
def test_quick_searches_stay_in_the_event_loop_but_never_explain_there(
    quick: bool, photos: Path
) -> None:
    searcher = Noting()
    app = create_app(Backends([Backend("sparta", searcher, photos, quick=quick)]))
    with TestClient(app) as client:
        plain = client.get("/v1/search?q=red").json()
        assert searcher.in_loop is quick
        explained = client.get("/v1/search?q=red&explain=true").json()
        assert not searcher.in_loop
    for hit in explained["hits"]:
        assert hit.pop("explanation")
    assert [hit | {"explanation": None} for hit in explained["hits"]] == plain["hits"]


def test_a_quick_search_that_fails_is_a_problem() -> None:
    app = create_app(Backends([Backend("sparta", Noting(), quick=True)]))
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/v1/search?q=explode")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text

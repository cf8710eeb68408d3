import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.search.api import Allowed, SearchResult
from server.backends import Backend
from tests.server.apps import app_of, client_of
from tests.server.fake import LEFT, RIGHT, FakeSearcher


def answer(client: TestClient, **params: Any) -> dict[str, Any]:
    response = client.get("/v1/search", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_hits_come_with_rank_score_metadata_and_url(client: TestClient) -> None:
    found = answer(client, q="red blue", k=2)
    assert found["query"] == "red blue"
    assert found["backend"] == "sparta"
    assert found["unknown"] == []
    assert found["timings"] == {
        "tokenise_ms": 0.25,
        "encode_ms": 0.0,
        "search_ms": 1.0,
        "total_ms": 1.25,
        "explain_ms": None,
    }
    assert found["hits"] == [
        {
            "rank": 1,
            "image_id": "garden/two.jpg",
            "score": 330,
            "url": "/v1/images/garden/two.jpg/file",
            "metadata": {"width": 240, "height": 320},
            "view": None,
            "explanation": None,
        },
        {
            "rank": 2,
            "image_id": "garden/one.png",
            "score": 200,
            "url": "/v1/images/garden/one.png/file",
            "metadata": {"width": 320, "height": 240},
            "view": None,
            "explanation": None,
        },
    ]


def test_an_explanation_has_each_term_with_its_box(client: TestClient) -> None:
    found = answer(client, q="Red blue red", k=1, explain="true")
    assert found["timings"]["explain_ms"] >= 0
    shared = {"region": 0, "box": list(RIGHT), "label": None, "similarity": None}
    assert found["hits"][0]["explanation"] == [
        {"term": "red", "word": "Red", "count": 2, "impact": 120, "score": 240} | shared,
        {"term": "blue", "word": "blue", "count": 1, "impact": 210, "score": 210}
        | shared
        | {"region": 1, "box": list(LEFT)},
    ]
    other = answer(client, q="green blue", k=5, explain="true")["hits"][-1]
    assert other["image_id"] == "garden/one.png"
    assert other["explanation"][1] | {"word": ""} == {
        "term": "blue",
        "word": "",
        "count": 1,
        "impact": 0,
        "score": 0,
        "region": None,
        "box": None,
        "label": None,
        "similarity": None,
    }
    assert other["explanation"][0]["label"] == {"token": "green", "words": "dark green"}


def test_unknown_words_alone_have_no_hits(client: TestClient) -> None:
    found = answer(client, q="zyzzyva qwx")
    assert found["hits"] == []
    assert found["unknown"] == ["zyzzyva", "qwx"]


def test_a_substitute_is_marked_and_can_be_refused(client: TestClient) -> None:
    found = answer(client, q="azure qwx", k=1, explain="true")
    assert found["substitutions"] == [{"word": "azure", "term": "blue", "similarity": 0.75}]
    assert found["unknown"] == ["qwx"]
    [term] = found["hits"][0]["explanation"]
    assert (term["word"], term["term"], term["similarity"]) == ("azure", "blue", 0.75)
    plain = answer(client, q="azure qwx", substitute="false")
    assert (plain["hits"], plain["substitutions"]) == ([], [])
    assert plain["unknown"] == ["azure", "qwx"]
    literal = answer(client, q="azure red", k=1, explain="true", substitute="false")
    assert [term["term"] for term in literal["hits"][0]["explanation"]] == ["red"]


def test_k_defaults_to_ten_and_may_exceed_the_corpus(client: TestClient) -> None:
    assert len(answer(client, q="red green blue", k=1000)["hits"]) == 5
    assert len(answer(client, q="red", k=1)["hits"]) == 1


def test_a_query_may_be_as_long_as_the_limit(client: TestClient) -> None:
    assert answer(client, q=("red " * 250).strip().ljust(1000, "x"))["query"].startswith("red red")


def test_urls_lead_to_the_photo_in_the_same_backend(client: TestClient) -> None:
    assert answer(client, q="red", backend="other one")["hits"][0]["url"] is None
    for hit in answer(client, q="red green blue", backend="third")["hits"]:
        assert hit["url"].endswith("/file?backend=third")
        assert client.get(hit["url"]).status_code == 200


def test_a_dense_backend_has_no_explanation_but_views(client: TestClient) -> None:
    listed = client.get("/v1/backends").json()["backends"][-1]
    assert (listed["name"], listed["explains"]) == ("vse++", False)
    found = answer(client, q="red qwx", k=2, explain="true", backend="vse++")
    assert (found["backend"], found["unknown"]) == ("vse++", ["qwx"])
    assert found["timings"] == {
        "tokenise_ms": 0.25,
        "encode_ms": 12.5,
        "search_ms": 1.0,
        "total_ms": 13.75,
        "explain_ms": None,
    }
    assert [(h["image_id"], h["score"], h["view"]) for h in found["hits"]] == [
        ("garden/one.png", 0.2, 0),
        ("garden/two.jpg", 0.12, 1),
    ]
    for hit in found["hits"]:
        assert hit["explanation"] is None
        assert hit["url"].endswith("/file?backend=vse%2B%2B")
        assert client.get(hit["url"]).status_code == 200
    assert len(answer(client, q="zzz", k=100, backend="vse++")["hits"]) == 5


# ---- where a search runs: in the event loop if it is quick, else in a thread ---------------------


class Recording(FakeSearcher):
    """Records whether the last search ran in an event loop."""

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
    ) -> SearchResult:
        try:
            asyncio.get_running_loop()
            self.in_loop = True
        except RuntimeError:
            self.in_loop = False
        return super().search(query, k, substitute=substitute, allowed=allowed)


@pytest.mark.parametrize("quick", [False, True])
def test_quick_searches_stay_in_the_event_loop_but_never_explain_there(
    quick: bool, photos: Path
) -> None:
    searcher = Recording()
    app = app_of(Backend("sparta", searcher, photos, quick=quick))
    with client_of(app) as client:
        plain = client.get("/v1/search?q=red").json()
        assert searcher.in_loop is quick
        explained = client.get("/v1/search?q=red&explain=true").json()
        assert not searcher.in_loop
    for hit in explained["hits"]:
        assert hit.pop("explanation")
    assert [hit | {"explanation": None} for hit in explained["hits"]] == plain["hits"]


def test_a_quick_search_that_fails_is_a_problem() -> None:
    app = app_of(Backend("sparta", Recording(), quick=True))
    with client_of(app, raise_server_exceptions=False) as client:
        answer = client.get("/v1/search?q=explode")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text

"""Suggestions, health and metrics, compression."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from server.backends import Backend
from tests.server.apps import app_of, client_of
from tests.server.fake import FakeDense, FakeSearcher


def test_a_server_that_stops_is_not_ready(client: TestClient) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    assert isinstance(client.app, FastAPI)
    client.app.state.stopping = True
    stopping = client.get("/readyz")
    assert stopping.status_code == 503
    assert stopping.json()["type"].endswith("stopping")
    assert client.get("/livez").json() == {"status": "ok"}


def test_metrics_count_requests_by_template(client: TestClient) -> None:
    client.get("/v1/search?q=red")
    client.get("/v1/images/garden/one.png")
    client.get("/v1/images/garden/one.png/file")
    client.get("/v1/images/sea/nothing.png")
    client.get("/page/app.js")
    client.get("/page/nothing.js")
    client.get("/nowhere")
    client.get("/livez/x")
    client.post("/v1/search")
    client.request("BREW", "/v1/search")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = re.findall(
        r'^visualsparta_request_duration_seconds_count\{code="(\d+)",method="(\w+)",'
        r'route="(.*?)"\} (\S+)$',
        answer.text,
        re.MULTILINE,
    )
    assert {(code, method, route): float(count) for code, method, route, count in found} == {
        ("200", "GET", "/v1/search"): 1,
        ("422", "POST", "/v1/search"): 1,
        ("405", "other", "/v1/search"): 1,
        ("200", "GET", "/v1/images/{image_id:image_id}"): 1,
        ("404", "GET", "/v1/images/{image_id:image_id}"): 1,
        ("200", "GET", "/v1/images/{image_id:image_id}/file"): 1,
        ("200", "GET", "/page"): 1,
        ("404", "GET", "/page"): 1,
        ("404", "GET", "none"): 2,
    }


def suggestions(client: TestClient, **params: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/suggest", params=params)
    assert response.status_code == 200, response.text
    assert response.json()["query"] == params["q"]
    found: list[dict[str, Any]] = response.json()["suggestions"]
    return found


def test_the_last_word_is_completed(client: TestClient) -> None:
    assert suggestions(client, q="blue -r") == [{"text": "blue -red", "word": "red", "images": 3}]
    assert [one["word"] for one in suggestions(client, q="a gren")] == ["green"]
    assert suggestions(client, q="blue ") == suggestions(client, q="") == []


@pytest.mark.parametrize("params", [{}, {"q": "a", "k": 0}, {"q": "a", "k": 51}, {"q": "a" * 1001}])
def test_what_does_not_fit_is_refused(client: TestClient, params: dict[str, Any]) -> None:
    assert client.get("/v1/suggest", params=params).status_code == 422


def test_dense_models_know_no_words() -> None:
    client = client_of(app_of(Backend("vse++", FakeDense())))
    with client:
        assert client.get("/v1/suggest?q=re").status_code == 422


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

"""Ids of requests, the access log and the slow-query log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from server.monitoring.middleware import INDEX_VERSION
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeDense, FakeSearcher


def logged(tmp_path: Path, *paths: str, **values: Any) -> list[dict[str, Any]]:
    """The lines of the log after some requests."""
    log = tmp_path / "log"
    sparta = Backend("sparta", FakeSearcher())
    key, dense = make_key(tmp_path / "keys.json"), Backend("vse++", FakeDense())
    app = app_of(sparta, dense, keys=tmp_path / "keys.json", **values)
    with client_of(app, raise_server_exceptions=False) as client:
        for path in paths:
            client.get(path, headers={"X-Request-ID": "mine", "Authorization": f"Bearer {key}"})
    assert not log.exists() or key not in log.read_text()
    assert not log.exists() or log.stat().st_mode & 0o007 == 0
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_line_a_request_without_queries_and_keys(tmp_path: Path) -> None:
    search = "/v1/search?q=red+secret&explain=true&key=hunter2"
    missing = "/v1/images/a%20%22b%0A.png?key=hunter2"
    found = logged(tmp_path, search, missing, access_log=str(tmp_path / "log"))
    assert "secret" not in str(found) and "hunter2" not in str(found)
    first, second = found
    assert first.pop("time") and first.pop("bytes") > 100
    assert first.pop("ms") >= sum(first["stages_ms"].values()) - 1.25  # what the fake one says
    stages = first.pop("stages_ms")
    assert list(stages) == ["queue", "tokenise", "search", "explain"]
    assert (stages["tokenise"], stages["search"]) == (0.25, 1.0)
    assert first == {
        "event": "request",
        "request_id": "mine",
        "client": "127.0.0.1",
        "method": "GET",
        "path": "/v1/search",
        "route": "/v1/search",
        "status": 200,
        "backend": "sparta",
        "engine": "columns",
        "index": "unknown",
    }
    assert (second["status"], second["path"]) == (404, '/v1/images/a "b\n.png')
    assert "stages_ms" not in second


def test_slow_searches_are_logged_with_their_queries(tmp_path: Path) -> None:
    values = {"slow_query_log": str(tmp_path / "log")}
    paths = ["/livez", "/v1/search?q=red&k=3&key=hunter2", "/v1/search?q=red&backend=vse%2B%2B"]
    _, dense = found = logged(tmp_path, *paths, slow_query_ms=0.0, **values)
    assert found[0]["event"] == "slow_query"
    assert found[0]["parameters"] == {"q": "red", "k": "3"}
    assert dense["stages_ms"]["encode"] == 12.5
    (tmp_path / "log").unlink()
    assert logged(tmp_path, *paths, slow_query_ms=60_000.0, **values) == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a-1.B:2/c=", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ('"', False)],
)
def test_ids_are_taken_over_if_they_need_no_quoting(
    client: TestClient, given: str, kept: bool
) -> None:
    answer = client.get("/livez", headers={"X-Request-ID": given})
    assert (answer.headers["x-request-id"] == given) is kept


def test_every_request_has_an_id_of_its_own(client: TestClient) -> None:
    paths = ["/livez", "/livez", "/nowhere", "/v1/search", "/page/app.js", "/v1/search?q=explode"]
    ids = [client.get(path).headers["x-request-id"] for path in paths]
    assert len(set(ids)) == len(paths)


def test_errors_of_the_server_are_recorded(tmp_path: Path) -> None:
    values = {"access_log": str(tmp_path / "log")}
    [line] = logged(tmp_path, "/v1/search?q=explode", **values)
    assert line["status"] == 500


@pytest.mark.parametrize(
    ("peer", "address"), [("10.1.2.3", "203.0.113.9"), ("192.0.2.7", "192.0.2.7")]
)
def test_the_address_is_the_one_that_a_trusted_proxy_forwards(
    tmp_path: Path, peer: str, address: str
) -> None:
    log = tmp_path / "log"
    app = app_of(
        Backend("sparta", FakeSearcher()),
        keys=tmp_path / "keys.json",
        trusted_proxies=["10.0.0.0/8"],
        root_path="/photos",
        access_log=str(log),
    )
    with client_of(app, address=peer) as client:
        for path in ("/photos/v1/search?q=red", "/livez"):
            client.get(path, headers={"X-Forwarded-For": "203.0.113.9"})
    first, second = (json.loads(line) for line in log.read_text().splitlines())
    assert (first["client"], first["path"], first["status"]) == (address, "/photos/v1/search", 401)
    assert (second["client"], second["path"], second["status"]) == (address, "/photos/livez", 200)


def test_the_document_declares_the_header_where_answers_have_it(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path in ("/v1/search?q=red", "/v1/search", "/v1/backends?x", "/v1/images/none", "/livez"):
        answer = client.get(path)
        name = path.partition("?")[0].replace("none", "{image_id}")
        documented = paths[name]["get"]["responses"][str(answer.status_code)]["headers"]
        assert documented[INDEX_VERSION]["schema"]["type"] == "string"
        assert INDEX_VERSION in answer.headers
    refused = client.get("/v1/search?q=red", headers={"Host": "evil.example"})
    assert INDEX_VERSION not in refused.headers
    assert "headers" not in paths["/v1/search"]["get"]["responses"]["421"]

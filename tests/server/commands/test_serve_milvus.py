"""`sparta serve --milvus`: a backend that finds in Milvus what the index has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.milvus import engine
from indexer.milvus.connection import Milvus
from indexer.milvus.engine import best_rows
from indexer.milvus.push import push
from server.app import create_app
from server.backends import open_backends
from tests.milvus_server import free_port
from tests.server.apps import client_of, settings
from tests.server.served import written

ONE = "garden/one.png"
SEARCHES: list[dict[str, Any]] = [
    {"q": "red"},
    {"q": "red blue green", "explain": True},
    {"q": "blue^3 red -green", "explain": True},
    {"q": "+red blue purple unknown"},
    {"q": "blue", "k": 1, "offset": 1},
    {"q": "red blue", "filter": "width:>=300 -path:garden*"},
    {"q": "red blue", "filter": "width:999"},
    {"q": "red blue", "min_coverage": 0.6},
]


def client_for(index: Path, uri: str, collection: str) -> TestClient:
    chosen = settings(index=index, milvus=uri, collection=collection)
    return client_of(create_app(open_backends(chosen), chosen))


@pytest.fixture(scope="module")
def client(drawings: Path, uri: str) -> Iterator[TestClient]:
    push(drawings, Milvus(uri), "served")
    with client_for(drawings, uri, "served") as client:
        yield client


def both(client: TestClient, path: str, **params: Any) -> list[Any]:
    """The answers of the two backends, without what names or times them."""
    answers = []
    for backend in ("milvus", "sparta"):
        response = client.get(path, params={**params, "backend": backend})
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer.pop("backend") == backend
        answers.append(plain(answer))
    return answers


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    for name in ("timings", "cursor", "url"):
        answer.pop(name, None)
    for hit in answer.get("hits", []):
        hit.pop("url")
    return answer


def test_the_name_that_a_push_prints(drawings: Path, uri: str) -> None:
    """`--collection` takes it, as it takes the alias: in the server and in another push."""
    pushed = push(drawings, Milvus(uri), "served")
    again = push(drawings, Milvus(uri), pushed.collection)
    assert (again.collection, again.written) == (pushed.collection, 0)
    with client_for(drawings, uri, pushed.collection) as client:
        found, right = both(client, "/v1/search", q="red")
        assert found == right
        assert found["hits"]


@pytest.mark.parametrize("params", SEARCHES, ids=str)
def test_searches(client: TestClient, params: dict[str, Any]) -> None:
    found, right = both(client, "/v1/search", **params)
    assert found == right


def test_images(client: TestClient) -> None:
    for path, params in (
        (f"/v1/images/{ONE}", {}),
        (f"/v1/images/{ONE}/explain", {"q": "red green purple"}),
        (f"/v1/images/{ONE}/similar", {"explain": True, "q": "blue"}),
        ("/v1/fields", {}),
    ):
        found, right = both(client, path, **params)
        assert found == right
    photo = client.get(f"/v1/images/{ONE}/file", params={"backend": "milvus"})
    assert photo.headers["content-type"] == "image/png"
    missing = client.get("/v1/images/no/explain", params={"q": "red", "backend": "milvus"})
    assert missing.status_code == 404
    counted = client.post("/v1/images/count", json={"backend": "milvus", "filter": "width:>=300"})
    assert counted.json()["count"] == 4
    [_, listed] = client.get("/v1/backends").json()["backends"]
    assert (listed["name"], listed["explains"], listed["images"]) == ("milvus", True, 5)


def test_what_it_cannot_do(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_ROWS", 1)
    monkeypatch.setattr(engine, "SPARE", 0)
    monkeypatch.setattr(engine, "best_rows", partial(best_rows, most=1))
    refused = client.get("/v1/search", params={"q": "blue -green", "backend": "milvus", "k": 2})
    assert refused.status_code == 422
    assert refused.json()["field"] == "backend"
    wanted = "backend: Milvus returns at most 1 images, of which the filter and the signs"
    assert refused.json()["detail"].startswith(wanted)


def test_one_that_is_not_there(drawings: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SECONDS", 0.5)
    for address, collection, reason in (
        (uri, "gone", f"{uri} does not have all of the collection gone_"),
        (away := f"milvus://127.0.0.1:{free_port()}", "served", f"{away} does not answer, or not"),
        ("there", "served", "'there' is no address of Milvus: give one such as milvus://"),
    ):
        with client_for(drawings, address, collection) as client:
            failed = client.get("/v1/search", params={"q": "red", "backend": "milvus"})
            assert failed.status_code == 503
            assert failed.json()["detail"].startswith(reason)
            assert client.get("/v1/search", params={"q": "red"}).status_code == 200


def test_it_follows_an_index_that_is_written_to(drawings: Path, uri: str, tmp_path: Path) -> None:
    live = shutil.copytree(drawings, tmp_path / "index")
    milvus, params = Milvus(uri), {"q": "purple", "backend": "milvus"}
    push(live, milvus, "written")
    with written(live, "--milvus", uri, "--set", "collection=written") as (client, _):
        assert client.get("/v1/search", params=params).json()["hits"] == []
        client.put("/v1/images/new.jpg", json={"terms": {"purple": 9}}).raise_for_status()
        assert client.get("/v1/search", params=params).json()["hits"] == []
        push(live, milvus, "written")
        [hit] = client.get("/v1/search", params=params | {"explain": True}).json()["hits"]
        assert (hit["image_id"], hit["score"]) == ("new.jpg", 18)
        assert hit["explanation"][0]["impact"] == 18

"""`Client` and `AsyncClient` against a running server, and what importing them loads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import sparta
from server.backends import Backend
from server.schemas import HitAnswer
from sparta.errors import InputError
from tests.server.client.clients import connected
from tests.server.fake import DRAWINGS, FakeDense, FakeSearcher
from tests.server.live import serving

LOCAL = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    sparta = Backend("sparta", FakeSearcher(), photos, ("red",), quick=True)
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield address


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, address: str) -> Iterator[Any]:
    with connected(request.param, address + "/") as client:
        yield client


def pairs(hits: list[HitAnswer]) -> list[tuple[str, float]]:
    return [(hit.image_id, hit.score) for hit in hits]


def test_search(client: Any) -> None:
    answer = client.search("Azure red qwx", k=3, explain=True)
    expected = FakeSearcher().search("Azure red qwx", 3)
    assert pairs(answer.hits) == [(hit.image_id, hit.score) for hit in expected.hits]
    assert answer.hits[0].metadata == {"width": 320, "height": 240}
    assert (answer.backend, answer.unknown) == ("sparta", ["Azure", "qwx"])
    for hit in answer.hits:
        terms = FakeSearcher().explain("Azure red qwx", hit.image_id).terms
        assert [(t.term, t.score, t.box) for t in hit.explanation or []] == [
            (term.term, term.score, term.box) for term in terms
        ]
    assert client.search("azure").substitutions[0].term == "blue"
    assert client.search("azure", substitute=False).hits == []
    assert client.search("red", backend="vse++").hits[0].score < 1
    assert [hit.coverage for hit in client.search("red blue", min_coverage=0.6).hits] == [1]
    assert client.search("red -blue").conditions[0].images == 3


def test_suggest(client: Any) -> None:
    [found] = client.suggest("blue r", k=3)
    assert (found.text, found.word, found.images) == ("blue red", "red", 3)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_similar_to_a_photo_that_is_sent(kind: str) -> None:
    sent: list[httpx.Request] = []
    timings = {"tokenise_ms": 0, "encode_ms": 0, "search_ms": 1, "total_ms": 1}
    answer = {"backend": "sparta", "index_version": "7", "terms": [{"term": "dog", "count": 3}]}

    def handle(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={**answer, "hits": [], "timings": timings})

    with connected(kind, LOCAL, handle) as client:
        found = client.similar_to_photo(b"photo", 3, explain=True, filter="rating:5")
    assert found.terms[0].term == "dog"
    [request] = sent
    assert (request.method, request.url.path) == ("POST", "/v1/images/similar")
    assert dict(request.url.params) == {"k": "3", "explain": "true", "filter": "rating:5"}
    assert request.headers["content-type"] == "application/octet-stream"
    assert request.content == b"photo"


def test_similar_to_several_images_and_words(client: Any) -> None:
    ids = ["garden/one.png", "sea/a b.webp"]
    answer = client.similar(ids, words="blue -green")
    expected = FakeSearcher().similar(ids, words="blue -green")
    assert pairs(answer.hits) == [(hit.image_id, hit.score) for hit in expected.hits]
    assert answer.also == ids[1:]


@pytest.mark.parametrize("image_id", DRAWINGS)
def test_an_image(client: Any, photos: Path, image_id: str) -> None:
    width, height = DRAWINGS[image_id].size
    assert client.get_image(image_id).metadata == {"width": width, "height": height}
    assert client.get_thumbnail(image_id, 512).media_type == "image/jpeg"
    photo = client.get_photo(image_id)
    assert photo.content == (photos / image_id).read_bytes()
    assert photo.media_type in ("image/png", "image/jpeg", "image/webp")
    explained = client.explain("red azure", image_id)
    assert explained.score == FakeSearcher().explain("red azure", image_id).score
    assert explained.terms[0].term == "red"
    similar = client.similar(image_id, k=2, explain=True)
    expected = FakeSearcher().similar(image_id, 2)
    assert pairs(similar.hits) == [(hit.image_id, hit.score) for hit in expected.hits]
    assert {term.term: term.count for term in similar.terms} == expected.terms


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_filters_go_where_they_can(kind: str) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(500)

    with connected(kind, "http://a", answer, retries=0) as client:
        for given in ("a:1", {"key": "a", "match": {"value": 1}}):
            with pytest.raises(sparta.ClientError):
                client.search("red", filter=given, offset=3, sort="-a", facets=["a", "b:year"])
            with pytest.raises(sparta.ClientError):
                client.count(given)
    text, counted, body, counted_body = sent
    assert text.method == "GET"
    params = {"filter": "a:1", "offset": "3", "sort": "-a", "facets": "a,b:year"}
    assert params.items() <= dict(text.url.params).items()
    assert (body.method, body.url.path) == ("POST", "/v1/search")
    wanted = {"key": "a", "match": {"value": 1}}
    read = json.loads(body.content)
    assert (read["filter"], read["facets"], read["offset"]) == (wanted, ["a", "b:year"], 3)
    assert json.loads(counted.content) == {"filter": "a:1", "backend": None}
    assert json.loads(counted_body.content)["filter"] == wanted
    assert counted.url.path == "/v1/images/count"


def test_pages_and_several_searches(client: Any) -> None:
    first = client.search("red blue green", k=2)
    second = client.search("red blue green", k=2, cursor=first.cursor)
    assert pairs(first.hits + second.hits) == pairs(client.search("red blue green", k=4).hits)
    queries = [{"q": "red", "k": 1}, {"q": "blue", "backend": "vse++"}]
    assert client.list_fields() == {}
    red, blue = client.search_several(queries)
    assert pairs(red.hits) == pairs(client.search("red", k=1).hits)
    assert (blue.query, blue.backend) == ("blue", "vse++")
    for refused in (
        lambda: client.search(filter="a:1"),
        lambda: client.similar("garden/one.png", filter="a:1"),
    ):
        with pytest.raises(sparta.ClientError, match="have no fields"):
            refused()


def test_backends(client: Any) -> None:
    first, second = client.list_backends()
    assert (first.name, first.images, first.examples) == ("sparta", len(DRAWINGS), ["red"])
    assert (second.name, second.explains) == ("vse++", False)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_server_that_goes_is_not_missed(kind: str, address: str, photos: Path) -> None:
    with ExitStack() as stack:
        with serving(Backend("going", FakeSearcher(), photos)) as going:
            client = stack.enter_context(connected(kind, [going, address]))
            assert [client.search("red").backend for _ in range(3)] == ["going", "sparta", "going"]
        assert [client.search("red").backend for _ in range(5)] == ["sparta"] * 5


def test_errors_are_the_server_s(client: Any) -> None:
    with pytest.raises(sparta.ClientError, match=r"answered 404, .*: image 'x\.jpg' is not") as e:
        client.get_photo("x.jpg")
    assert e.value.status == 404
    assert e.value.problem is not None and e.value.problem.field == "image_id"
    with pytest.raises(sparta.ClientError, match="k: input should be greater than") as e:
        client.search("red", k=0)
    assert e.value.status == 422


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_key_goes_into_the_header(kind: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer vs_0-z"
        assert "vs_0" not in str(request.url)
        return httpx.Response(200, json={"backends": []})

    with connected(kind, LOCAL, handler, api_key="vs_0-z") as client:
        assert client.list_backends() == []


@pytest.mark.parametrize("key", ["", "two words", "line\n", "schlüssel", "tab\t"])
def test_a_key_that_no_header_can_contain_is_not_shown(key: str) -> None:
    with pytest.raises(InputError, match="the API key has spaces") as error:
        sparta.Client(LOCAL, api_key=key)
    assert not key or key not in str(error.value)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_answers_of_other_programs(kind: str) -> None:
    problem = {"Content-Type": "application/problem+json"}
    answers = {
        "/v1/backends": httpx.Response(200, html="<p>Hello"),
        "/v1/images/a.jpg": httpx.Response(502, html="<p>Bad gateway"),
        "/v1/images/a.jpg/file": httpx.Response(200, html="<p>Hello"),
        "/v1/search": httpx.Response(400, content=b"{}", headers=problem),
        "/v1/images/a.jpg/similar": httpx.Response(302, headers={"Location": "/login"}),
    }
    with connected(kind, LOCAL, lambda request: answers[request.url.path]) as client:
        for ask in (client.list_backends, lambda: client.get_photo("a.jpg")):
            with pytest.raises(
                sparta.ClientError, match="not answer as a VisualSparta server"
            ) as e:
                ask()
            assert e.value.status is None
        with pytest.raises(
            sparta.ClientError, match="answered 502, Bad Gateway: the answer has no"
        ):
            client.get_image("a.jpg")
        with pytest.raises(sparta.ClientError, match="answered 400, Bad Request") as e:
            client.search("red")
        assert e.value.problem is not None and e.value.problem.type == "about:blank"
        with pytest.raises(sparta.ClientError, match="not answer as a VisualSparta server"):
            client.similar("a.jpg")


def test_importing_a_client_loads_neither_server_nor_index() -> None:
    heavy = ["numpy", "fastapi", "starlette", "uvicorn", "PIL", "indexer", "pyarrow", "torch"]
    program = f"""
import sys, sparta
sparta.Client, sparta.AsyncClient, sparta.ClientError
print(*[name for name in {heavy} if name in sys.modules])
print(*sorted(name for name in sys.modules if name.startswith("server.") and name.count(".") == 1))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["", "server.client server.schemas"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_changes_the_index(kind: str) -> None:
    sent: list[tuple[str, str, str, bytes]] = []
    answers: list[dict[str, Any]] = [
        {"image_id": "a b", "result": "created"},
        {"image_id": "a", "result": "replaced"},
        {"image_id": "a", "result": "updated", "metadata": {"x": 1}},
        {"image_id": "a", "result": "deleted", "index_version": "7.1"},
        {"deleted": 1, "missing": ["b"]},
        {"deleted": 3, "missing": []},
        {"created": 1, "errors": [{"line": 2, "image_id": None, "detail": "no JSON"}]},
    ]

    def handle(request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode()
        media_type = request.headers.get("content-type", "")
        sent.append((request.method, target, media_type, request.content))
        return httpx.Response(200, json=answers[len(sent) - 1])

    with connected(kind, LOCAL, handle) as client:
        assert client.put_photo("a b", b"photo", refresh="none").result == "created"
        client.put_image("a", terms={"dog": 2}, metadata={"x": 1})
        assert client.update_image("a", {"x": 1, "y": None}).metadata == {"x": 1}
        assert client.delete_image("a").index_version == "7.1"
        assert client.delete_images(["a", "b"]).missing == ["b"]
        assert client.delete_images(filter={"match": {"x": 1}}).deleted == 3
        assert client.write_batch([{"image_id": "a", "delete": True}]).errors[0].line == 2
    one, wait = "/v1/images/a?refresh=wait", "?refresh=wait"
    plain = "application/json"
    bodies = [(how, to, kind, content.replace(b" ", b"")) for how, to, kind, content in sent]
    assert bodies == [
        ("PUT", "/v1/images/a%20b?refresh=none", "application/octet-stream", b"photo"),
        ("PUT", one, plain, b'{"terms":{"dog":2},"metadata":{"x":1}}'),
        ("PATCH", one, plain, b'{"x":1,"y":null}'),
        ("DELETE", one, "", b""),
        ("POST", f"/v1/images/delete{wait}", plain, b'{"ids":["a","b"]}'),
        ("POST", f"/v1/images/delete{wait}", plain, b'{"filter":{"match":{"x":1}}}'),
        (
            "POST",
            f"/v1/images/batch{wait}",
            "application/x-ndjson",
            b'{"image_id":"a","delete":true}\n',
        ),
    ]


@pytest.mark.parametrize("image_id", ["trash/../a.jpg", "./a.jpg", "/a.jpg", "a//b.jpg", "a/", ""])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_id_that_would_reach_another_image_is_not_sent(kind: str, image_id: str) -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    with connected(kind, LOCAL, never) as client:
        for ask in (
            lambda: client.get_image(image_id),
            lambda: client.get_photo(image_id),
            lambda: client.get_thumbnail(image_id),
            lambda: client.similar(image_id),
            lambda: client.explain("red", image_id),
            lambda: client.put_photo(image_id, b"photo"),
            lambda: client.put_image(image_id, terms={"red": 1.0}),
            lambda: client.update_image(image_id, {"album": "Crete"}),
            lambda: client.delete_image(image_id),
        ):
            with pytest.raises(sparta.ClientError, match="nothing was sent"):
                ask()

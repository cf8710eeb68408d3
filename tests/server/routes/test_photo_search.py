"""Searching by a photo that is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from server.app import create_app
from server.backends import Backend, Backends
from server.problems import ProblemError
from server.writing.forward import ENCODING, Forwarder
from tests.server.apps import client_of, settings
from tests.server.fake import FakeDense, FakeSearcher

PATH = "/v1/images/similar"
JPEG = {"Content-Type": "image/jpeg"}


class Encoding(Forwarder):
    """Finds the same terms in all photos; a photo "bad" is none."""

    async def send(self, request: Request, *_: Any) -> Response:
        if await request.body() == b"bad":
            return Response('{"title": "no photo"}', 422, media_type="application/problem+json")
        return JSONResponse({"blue": 3, "red": 1})


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = create_app(Backends([Backend("a", FakeSearcher())]), settings(), forwarder=Encoding())
    with client_of(app) as client:
        yield client


def test_the_nearest_photos_with_their_explanations(client: TestClient) -> None:
    answer = client.post(f"{PATH}?k=2&explain=true", content=b"photo", headers=JPEG).json()
    assert answer["terms"] == [{"term": "blue", "count": 192}, {"term": "red", "count": 64}]
    assert [hit["image_id"] for hit in answer["hits"]] == ["garden/two.jpg", "sea/100% #1?&+;=.png"]
    terms = answer["hits"][0]["explanation"]
    assert [(term["term"], term["impact"]) for term in terms] == [("blue", 210), ("red", 120)]
    plain = client.post(
        PATH, content=b"photo", headers={"Content-Type": "application/octet-stream"}
    )
    assert plain.json()["hits"][0]["explanation"] is None


def test_what_is_no_photo(client: TestClient) -> None:
    answer = client.post(PATH, content=b"bad", headers=JPEG)
    assert (answer.status_code, answer.json()) == (422, {"title": "no photo"})
    for kind in ("text/plain", "application/json", ""):
        answer = client.post(PATH, content=b"photo", headers={"Content-Type": kind})
        assert answer.status_code == 415 and "send a photo" in answer.json()["detail"]
    assert client.post(f"{PATH}?k=0", content=b"photo", headers=JPEG).status_code == 422


def test_a_dense_backend_takes_no_photo() -> None:
    app = create_app(Backends([Backend("d", FakeDense())]), settings(), forwarder=Encoding())
    with client_of(app) as client:
        answer = client.post(PATH, content=b"photo", headers=JPEG)
    assert answer.status_code == 422
    assert "the dense engine cannot search by a photo" in answer.json()["detail"]


def test_so_many_photos_are_encoded_at_once() -> None:
    async def run() -> None:
        release = asyncio.Event()

        class Waiting(Forwarder):
            async def send(self, *_: Any) -> Response:
                await release.wait()
                return Response()

        forwarder = Waiting()
        request: Any = None
        running = [asyncio.create_task(forwarder.encode(request)) for _ in range(ENCODING)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="too many photos"):
            await forwarder.encode(request)
        release.set()
        await asyncio.gather(*running)
        await forwarder.encode(request)

    asyncio.run(run())

"""Images over HTTP: files, small pictures, explanations, and searches by image."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from PIL import Image

from server.app import create_app
from server.backends import Backend, Backends
from server.photo_files import keep_upload
from server.problems import ProblemError
from server.writing.forward import ENCODING, Forwarder
from tests.server.apps import app_of, client_of, settings
from tests.server.fake import DRAWINGS, FakeDense, FakeSearcher
from tests.server.routes.test_search import times
from tests.server.test_photo_files import photo

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}


@pytest.mark.parametrize("image_id", DRAWINGS)
def test_every_photo_is_served_as_it_is(client: TestClient, photos: Path, image_id: str) -> None:
    about = client.get("/v1/images/" + quote(image_id)).json()
    assert about["image_id"] == image_id
    assert about["metadata"]["width"] == DRAWINGS[image_id].size[0]
    response = client.get(about["url"])
    assert response.content == (photos / image_id).read_bytes()
    assert response.headers["content-type"] == TYPES[Path(image_id).suffix]
    assert response.headers["x-content-type-options"] == "nosniff"
    encoded_whole = client.get(f"/v1/images/{quote(image_id, safe='')}/file")
    assert encoded_whole.content == response.content


def test_head_and_caching(client: TestClient, photos: Path) -> None:
    url = "/v1/images/garden/one.png/file"
    head = client.head(url)
    assert head.status_code == 200
    assert head.content == b""
    assert int(head.headers["content-length"]) == (photos / "garden/one.png").stat().st_size
    assert head.headers["content-type"] == "image/png"
    assert head.headers["cache-control"] == "private, no-cache"
    tag = head.headers["etag"]
    again = client.get(url, headers={"If-None-Match": f'"other", W/{tag}'})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["etag"] == tag
    assert client.get(url, headers={"If-None-Match": '"other"'}).status_code == 200
    assert client.get(url, headers={"If-None-Match": "*"}).status_code == 304
    part = client.get(url, headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"PNG")


def test_only_what_has_changed_since(client: TestClient) -> None:
    url = "/v1/images/garden/one.png/file"
    modified = client.get(url).headers["last-modified"]
    for since, status in [
        (modified, 304),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 304),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 200),
        ("yesterday", 200),
    ]:
        assert client.get(url, headers={"If-Modified-Since": since}).status_code == status
        # The entity tag decides where both are given.
        both = {"If-Modified-Since": since, "If-None-Match": '"other"'}
        assert client.get(url, headers=both).status_code == 200


def test_a_replaced_photo_is_a_new_one(photos: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(photos, tmp_path / "photos")
    url, file = "/v1/images/garden/one.png/file", folder / "garden/one.png"
    with client_of(app_of(Backend("sparta", FakeSearcher(), folder))) as client:
        old = client.get(url)
        # Of the same size and time, as a copy with its times may be.
        changed, times = bytearray(file.read_bytes()), file.stat()
        changed[-1] ^= 1
        file.write_bytes(changed)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        new = client.get(url, headers={"If-None-Match": old.headers["etag"]})
    assert (new.status_code, new.content) == (200, bytes(changed))
    assert new.headers["last-modified"] == old.headers["last-modified"]


@pytest.mark.parametrize(
    ("value", "status"),
    [("bytes=9999999-", 416), ("bytes=x-y", 400), ("bytes", 400), ("lines=1-2", 400)],
)
def test_a_bad_range_is_a_problem(client: TestClient, value: str, status: int) -> None:
    response = client.get("/v1/images/garden/one.png/file", headers={"Range": value})
    assert response.status_code == response.json()["status"] == status
    assert response.headers["content-type"] == "application/problem+json"
    assert "range" in response.json()["detail"].lower()
    assert response.json()["instance"] == "/v1/images/garden/one.png/file"
    assert ("content-range" in response.headers) == (status == 416)


def test_no_photos_folder(client: TestClient) -> None:
    response = client.get("/v1/images/garden/one.png/file", params={"backend": "other one"})
    assert response.status_code == 404
    assert "--photos" in response.json()["detail"]
    about = client.get("/v1/images/garden/one.png", params={"backend": "other one"}).json()
    assert about["url"] is None


def test_a_name_with_a_line_feed_is_an_image_id(client: TestClient) -> None:
    for name in ("line\nfeed.png", "\n", "end\n"):
        for part in ("", "/file", "/similar"):
            found, plain = (
                client.get(f"/v1/images/{quote(image_id, safe='')}{part}").json()
                for image_id in (name, "absent")
            )
            assert found["type"] == plain["type"]


def test_a_photo_that_was_sent_is_served_from_the_index(tmp_path: Path) -> None:
    content = photo("PNG")
    name = keep_upload(tmp_path, content)

    class Sent(FakeSearcher):
        def metadata(self, image_id: str) -> dict[str, object]:
            found: dict[str, object] = super().metadata(image_id)
            return found | ({"upload": name} if "one" in image_id else {})

    app = app_of(Backend("sparta", Sent(), uploads=(tmp_path,)))
    with client_of(app) as client:
        about = client.get("/v1/images/garden/one.png").json()
        response = client.get(about["url"])
        assert (response.content, response.headers["content-type"]) == (content, "image/png")
        assert client.get("/v1/images/garden/two.jpg/file").status_code == 404
        assert client.get("/v1/backends").json()["backends"][0]["photos"]


@pytest.mark.parametrize("image_id", DRAWINGS)
def test_every_photo_has_a_picture(client: TestClient, image_id: str) -> None:
    response = client.get(f"/v1/images/{quote(image_id)}/thumbnail")
    assert response.headers["content-type"] == "image/jpeg"
    width, height = Image.open(BytesIO(response.content)).size
    assert max(width, height) == 256
    full = DRAWINGS[image_id].size
    assert width / height == pytest.approx(full[0] / full[1], rel=0.01)
    large = client.get(f"/v1/images/{quote(image_id)}/thumbnail", params={"size": 512})
    assert Image.open(BytesIO(large.content)).size == full


def test_caching(client: TestClient) -> None:
    url = "/v1/images/garden/one.png/thumbnail"
    first = client.get(url)
    assert first.headers["cache-control"] == "private, max-age=300"
    tag = first.headers["etag"]
    again = client.get(url, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(url, params={"size": 512}, headers={"If-None-Match": tag}).status_code == 200


def test_what_has_no_picture(client: TestClient, tmp_path: Path) -> None:
    for url, status, kind in (
        ("x.jpg/thumbnail", 404, "unknown-image"),
        ("garden/one.png/thumbnail?size=100", 422, "invalid-parameter"),
    ):
        response = client.get(f"/v1/images/{url}")
        assert response.status_code == status
        assert response.json()["type"].endswith(kind)
    (tmp_path / "garden").mkdir()
    (tmp_path / "garden/one.png").write_text("no photo")
    with client_of(app_of(Backend("sparta", FakeSearcher(), tmp_path))) as other:
        for image_id, kind in (("garden/one.png", "unreadable"), ("garden/two.jpg", "missing")):
            response = other.get(f"/v1/images/{image_id}/thumbnail")
            assert response.status_code == 404
            assert response.json()["type"].endswith(f"photo-{kind}")


def explained(client: TestClient, image_id: str, **params: Any) -> dict[str, Any]:
    response = client.get(f"/v1/images/{quote(image_id)}/explain", params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("query", ["red", "Red blue red", "azure qwx", "purple"])
def test_the_explanation_of_a_hit_is_that_of_its_search(client: TestClient, query: str) -> None:
    hits = client.get("/v1/search", params={"q": query, "explain": "true"}).json()["hits"]
    for hit in hits:
        found = explained(client, hit["image_id"], q=query)
        assert found["terms"] == hit["explanation"]
        for name in ("image_id", "score", "url", "metadata"):
            assert found[name] == hit[name]
    assert {hit["image_id"] for hit in hits} == {
        image_id for image_id in DRAWINGS if explained(client, image_id, q=query)["score"] > 0
    }


def test_an_image_that_is_no_hit_is_explained_too(client: TestClient) -> None:
    found = explained(client, "sea/a b.webp", q="red", backend="third")
    assert (found["query"], found["backend"], found["score"]) == ("red", "third", 0)
    assert [(term["term"], term["impact"]) for term in found["terms"]] == [("red", 0)]


def test_without_substitutes(client: TestClient) -> None:
    assert explained(client, "sea/a b.webp", q="azure")["score"] == 150
    assert explained(client, "sea/a b.webp", q="azure", substitute="false")["score"] == 0


def test_errors_name_the_field(client: TestClient, searcher: FakeSearcher) -> None:
    def problem(image_id: str, **params: str) -> tuple[int, str, str]:
        response = client.get(f"/v1/images/{image_id}/explain", params=params)
        return response.status_code, response.json()["field"], response.json()["detail"]

    assert problem("nothing.png", q="red")[:2] == (404, "image_id")
    assert problem("garden/one.png")[:2] == (422, "q")
    assert problem("garden/one.png", q=" ")[:2] == (422, "q")
    assert problem("garden/one.png", q="red", backend="vse++") == (
        422,
        "backend",
        "backend: the dense engine cannot explain scores; search sparta",
    )


def similar(client: TestClient, image_id: str, **params: Any) -> dict[str, Any]:
    response = client.get(f"/v1/images/{quote(image_id)}/similar", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_hits_come_as_in_a_search_with_the_terms_asked_for(client: TestClient) -> None:
    found = similar(client, "garden/one.png", k=2)
    assert (found["image_id"], found["backend"]) == ("garden/one.png", "sparta")
    assert found["url"] == "/v1/images/garden/one.png/file"
    assert found["terms"] == [{"term": "red", "count": 176}, {"term": "green", "count": 79}]
    assert [hit.pop("image_id") for hit in found["hits"]] == ["garden/two.jpg", "Straße/海 é.jpg"]
    assert found["hits"][0] == {
        **{"rank": 1, "score": 176 * 120, "url": "/v1/images/garden/two.jpg/file"},
        "metadata": {"width": 240, "height": 320},
        **dict.fromkeys(("view", "coverage", "explanation")),
    }
    assert found["timings"] == times(0.5, 0.0, 1.5)


def test_every_photo_finds_others_and_not_itself(client: TestClient) -> None:
    for image_id in DRAWINGS:
        hits = similar(client, image_id)["hits"]
        right = FakeSearcher().similar(image_id).hits
        assert [(h["image_id"], h["score"]) for h in hits] == [
            (hit.image_id, hit.score) for hit in right
        ]
        assert hits and image_id not in [hit["image_id"] for hit in hits]
        assert all(client.get(hit["url"]).status_code == 200 for hit in hits)


def test_several_images_and_words(client: TestClient) -> None:
    also = ["sea/a b.webp", "Straße/海 é.jpg"]
    found = similar(client, "garden/one.png", also=also, q="blue -green", k=5)
    assert (found["also"], found["query"]) == (also, "blue -green")
    assert [hit["image_id"] for hit in found["hits"]] == ["garden/two.jpg", "sea/100% #1?&+;=.png"]
    assert found["terms"][0]["term"] == "blue" and found["terms"][0]["count"] >= 128
    assert found["conditions"] == [{"word": "green", "sign": "-", "images": 1}]
    assert (found["unknown"], found["rare"], found["substitutions"]) == ([], [], [])
    response = client.get("/v1/images/garden/one.png/similar", params={"also": "no.jpg"})
    assert response.status_code == 404
    assert response.json()["detail"] == "image 'no.jpg' is not in the index"


def test_explanations_are_of_the_terms_asked_for(client: TestClient) -> None:
    found = similar(client, "garden/one.png", explain="true")
    assert found["timings"]["explain_ms"] >= 0
    counts = {term["term"]: term["count"] for term in found["terms"]}
    for hit in found["hits"]:
        assert {term["term"]: term["count"] for term in hit["explanation"]} == counts
        assert sum(term["score"] for term in hit["explanation"]) == hit["score"]


def test_backends_of_their_own(client: TestClient) -> None:
    found = similar(client, "garden/one.png", backend="vse++", explain="true")
    assert (found["backend"], found["terms"]) == ("vse++", [])
    assert found["url"] == "/v1/images/garden/one.png/file?backend=vse%2B%2B"
    assert len(found["hits"]) == 4 and found["hits"][0]["explanation"] is None
    assert found["timings"]["explain_ms"] is None
    assert similar(client, "garden/one.png", backend="other one")["url"] is None


BY_PHOTO = "/v1/images/similar"
JPEG = {"Content-Type": "image/jpeg"}


class Encoding(Forwarder):
    """Finds the same terms in all photos; a photo "bad" is none."""

    async def send(self, request: Request, *_: Any) -> Response:
        if await request.body() == b"bad":
            return Response('{"title": "no photo"}', 422, media_type="application/problem+json")
        return JSONResponse({"blue": 3, "red": 1})


@pytest.fixture
def encoding() -> Iterator[TestClient]:
    app = create_app(Backends([Backend("a", FakeSearcher())]), settings(), forwarder=Encoding())
    with client_of(app) as encoding:
        yield encoding


def test_the_nearest_photos_with_their_explanations(encoding: TestClient) -> None:
    answer = encoding.post(f"{BY_PHOTO}?k=2&explain=true", content=b"photo", headers=JPEG).json()
    assert answer["terms"] == [{"term": "blue", "count": 192}, {"term": "red", "count": 64}]
    assert [hit["image_id"] for hit in answer["hits"]] == ["garden/two.jpg", "sea/100% #1?&+;=.png"]
    terms = answer["hits"][0]["explanation"]
    assert [(term["term"], term["impact"]) for term in terms] == [("blue", 210), ("red", 120)]
    plain = encoding.post(
        BY_PHOTO, content=b"photo", headers={"Content-Type": "application/octet-stream"}
    )
    assert plain.json()["hits"][0]["explanation"] is None


def test_what_is_no_photo(encoding: TestClient) -> None:
    answer = encoding.post(BY_PHOTO, content=b"bad", headers=JPEG)
    assert (answer.status_code, answer.json()) == (422, {"title": "no photo"})
    for kind in ("text/plain", "application/json", ""):
        answer = encoding.post(BY_PHOTO, content=b"photo", headers={"Content-Type": kind})
        assert answer.status_code == 415 and "send a photo" in answer.json()["detail"]
    assert encoding.post(f"{BY_PHOTO}?k=0", content=b"photo", headers=JPEG).status_code == 422


def test_a_dense_backend_takes_no_photo() -> None:
    app = create_app(Backends([Backend("d", FakeDense())]), settings(), forwarder=Encoding())
    with client_of(app) as encoding:
        answer = encoding.post(BY_PHOTO, content=b"photo", headers=JPEG)
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

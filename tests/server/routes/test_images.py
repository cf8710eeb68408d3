"""Images over HTTP: files, and traps that lead out of their folder; searches by a photo."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from PIL import Image

from server.app import create_app
from server.backends import Backend, Backends
from server.photo_files import keep_upload
from server.problems import ProblemError
from server.writing.forward import ENCODING, Forwarder
from tests.server.apps import app_of, client_of, raw_get, serving, settings
from tests.server.fake import DRAWINGS, Drawing, FakeDense, FakeSearcher
from tests.server.test_photo_files import photo

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}


@pytest.mark.parametrize("image_id", DRAWINGS)
def test_every_photo_is_served_as_it_is(client: TestClient, photos: Path, image_id: str) -> None:
    for escaped in (quote(image_id), quote(image_id, safe="")):
        response = client.get(f"/v1/images/{escaped}/file")
        assert response.content == (photos / image_id).read_bytes()
        assert response.headers["content-type"] == TYPES[Path(image_id).suffix]
        assert response.headers["x-content-type-options"] == "nosniff"


FILE = "/v1/images/garden/one.png/file"


def test_head_and_caching(client: TestClient, photos: Path) -> None:
    head = client.head(FILE)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == (photos / "garden/one.png").stat().st_size
    assert head.headers["content-type"] == "image/png"
    assert head.headers["cache-control"] == "private, no-cache"
    tag, modified = head.headers["etag"], head.headers["last-modified"]
    for headers, status in (
        ({"If-None-Match": f'"other", W/{tag}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}, 304),
        ({"If-Modified-Since": "Sat, 01 Jan 2000 00:00:00 GMT"}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        # The entity tag decides where both are given.
        ({"If-Modified-Since": modified, "If-None-Match": '"other"'}, 200),
        ({"Range": "bytes=1-3"}, 206),
    ):
        answer = client.get(FILE, headers=headers)
        assert (answer.status_code, answer.headers["etag"]) == (status, tag), headers
        assert answer.content == {304: b"", 206: b"PNG"}.get(status, client.get(FILE).content)


def test_a_replaced_photo_is_a_new_one(photos: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(photos, tmp_path / "photos")
    file = folder / "garden/one.png"
    with client_of(app_of(Backend("sparta", FakeSearcher(), folder))) as client:
        old = client.get(FILE)
        # Of the same size and time, as a copy with its times may be.
        changed, times = bytearray(file.read_bytes()), file.stat()
        changed[-1] ^= 1
        file.write_bytes(changed)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        new = client.get(FILE, headers={"If-None-Match": old.headers["etag"]})
    assert (new.status_code, new.content) == (200, bytes(changed))
    assert new.headers["last-modified"] == old.headers["last-modified"]


@pytest.mark.parametrize(
    ("value", "status"),
    [("bytes=9999999-", 416), ("bytes=x-y", 400), ("bytes", 400)],
)
def test_a_bad_range_is_a_problem(client: TestClient, value: str, status: int) -> None:
    response = client.get(FILE, headers={"Range": value})
    assert response.status_code == response.json()["status"] == status
    assert response.headers["content-type"] == "application/problem+json"
    assert "range" in response.json()["detail"].lower()
    assert response.json()["instance"] == FILE
    assert ("content-range" in response.headers) == (status == 416)


@pytest.mark.parametrize("unit", ["lines=1-2", "items=0-5", "pages=1", "BITS=0-"])
def test_a_range_of_another_unit_is_ignored(client: TestClient, unit: str) -> None:
    for path in (FILE, "/", "/docs", "/page/icon.svg"):
        response = client.get(path, headers={"Range": unit})
        assert (response.status_code, response.content) == (200, client.get(path).content)


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


def test_caching_of_pictures(client: TestClient) -> None:
    missing = client.get("/v1/images/garden/one.png/thumbnail?backend=other one")
    assert missing.status_code == 404 and "--photos" in missing.json()["detail"]
    url = "/v1/images/garden/one.png/thumbnail"
    first = client.get(url)
    assert first.headers["cache-control"] == "private, no-cache"  # it may be replaced
    tag = first.headers["etag"]
    again = client.get(url, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(url, params={"size": 512}, headers={"If-None-Match": tag}).status_code == 200


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
    octets = {"Content-Type": "application/octet-stream"}
    answer = encoding.post(f"{BY_PHOTO}?k=2&explain=true", content=b"photo", headers=octets).json()
    assert answer["terms"] == [{"term": "blue", "count": 192}, {"term": "red", "count": 64}]
    assert [hit["image_id"] for hit in answer["hits"]] == ["garden/two.jpg", "sea/100% #1?&+;=.png"]
    terms = answer["hits"][0]["explanation"]
    assert [(term["term"], term["impact"]) for term in terms] == [("blue", 210), ("red", 120)]


def test_what_is_no_photo(encoding: TestClient) -> None:
    answer = encoding.post(BY_PHOTO, content=b"bad", headers=JPEG)
    assert (answer.status_code, answer.json()) == (422, {"title": "no photo"})
    for kind in ("text/plain", "application/json", ""):
        answer = encoding.post(BY_PHOTO, content=b"photo", headers={"Content-Type": kind})
        assert answer.status_code == 415 and "send a photo" in answer.json()["detail"]
    assert encoding.post(f"{BY_PHOTO}?k=0", content=b"photo", headers=JPEG).status_code == 422
    app = create_app(Backends([Backend("d", FakeDense())]), settings(), forwarder=Encoding())
    with client_of(app) as dense:
        answer = dense.post(BY_PHOTO, content=b"photo", headers=JPEG)
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


SECRET = b"only the owner reads this"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photos folder with traps in it, and a secret beside it."""
    tmp_path = tmp_path_factory.mktemp("house")
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (folder / "unindexed.txt").write_bytes(SECRET)
    Image.new("RGB", (8, 8), "red").save(folder / "real.png")
    (folder / "out.png").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "in.png").symlink_to(folder / "real.png")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "dangling.png").symlink_to(tmp_path / "nowhere")
    (folder / "folder.png").mkdir()
    (folder / "page.png").write_text("<script>alert(1)</script>")
    return folder


@pytest.fixture(scope="module")
def trapped(house: Path) -> Iterator[str]:
    """A server whose index itself names every trap."""
    drawing = Drawing((8, 8), "red", {"red": (1, (0.0, 0.0, 1.0, 1.0))})
    ids = [path.name for path in house.iterdir()] + [
        "gone.png",
        "x" * 300 + ".png",
        "../secret.txt",
        "up/secret.txt",
        str(house.parent / "secret.txt"),
    ]
    ids.remove("unindexed.txt")
    searcher = FakeSearcher(dict.fromkeys(ids, drawing))
    with serving(Backend("sparta", searcher, house)) as address:
        yield address


def encoded(image_id: str) -> str:
    """A URL in which every byte is escaped, so that no client tidies its dots and slashes away."""
    escaped = "".join(f"%{byte:02X}" for byte in image_id.encode(errors="replace"))
    return f"/v1/images/{escaped}/file"


@pytest.mark.parametrize(
    ("image_id", "status", "kind"),
    [
        ("gone.png", 404, "photo-missing"),
        ("dangling.png", 404, "photo-missing"),
        ("loop.png", 404, "photo-missing"),
        ("folder.png", 404, "photo-missing"),
        ("x" * 300 + ".png", 404, "photo-missing"),
        ("page.png", 404, "photo-unreadable"),
        ("out.png", 403, "photo-forbidden"),
        ("up", 403, "photo-forbidden"),
        ("up/secret.txt", 403, "photo-forbidden"),
        ("../secret.txt", 403, "photo-forbidden"),
        ("HOUSE/secret.txt", 403, "photo-forbidden"),
        ("unindexed.txt", 404, "unknown-image"),
        ("./real.png", 404, "unknown-image"),
        ("real.png\0", 404, "unknown-image"),
        ("real.png\0/../../secret.txt", 404, "unknown-image"),
        ("..%2Fsecret.txt", 404, "unknown-image"),
        ("/etc/passwd", 404, "unknown-image"),
    ],
)
def test_traps_are_refused(
    trapped: str, house: Path, image_id: str, status: int, kind: str
) -> None:
    found, headers, body = raw_get(trapped, encoded(image_id.replace("HOUSE", str(house.parent))))
    assert found == status
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"].endswith(kind)
    assert json.loads(body)["field"] == "image_id"
    assert raw_get(trapped, encoded("in.png"))[2] == (house / "real.png").read_bytes()


PARTS = st.sampled_from(
    ["..", ".", "", "up", "real.png", "secret.txt", "out.png", "\0", "%2e%2e", "%2F", "\\", "etc"]
)
IDS = st.one_of(st.lists(PARTS, max_size=8).map("/".join), st.text(max_size=30))


@given_settings(max_examples=300)
@given(image_id=IDS, plain=st.booleans())
def test_no_id_leads_out(trapped: str, image_id: str, plain: bool) -> None:
    escaped = f"/v1/images/{quote(image_id, errors='replace')}/file" if plain else None
    status, headers, body = raw_get(trapped, escaped or encoded(image_id))
    assert status in (200, 403, 404)
    assert SECRET not in body
    if status == 200:
        assert image_id in ("real.png", "in.png", "page.png")
    else:
        assert headers["content-type"] == "application/problem+json"


PLACES = ["/", "/docs", "/livez", "/readyz", "/openapi.json", "/v1/backends", "/v1/fields"]
PLACES += ["/v1/search?q=red", "/v1/suggest?q=r", "/v1/session", "/page/app.js", "/v1/keys"]
PLACES += [FILE.removesuffix("/file") + view for view in ("", "/file", "/thumbnail", "/similar")]
PLACES += ["/v1/images/absent", "/nowhere", f"{FILE.removesuffix('/file')}/explain?q=red"]


@pytest.mark.parametrize("path", PLACES)
def test_head_is_answered_as_get(client: TestClient, path: str) -> None:
    shown, head = client.get(path), client.head(path)
    assert head.status_code == shown.status_code
    assert head.headers["content-type"] == shown.headers["content-type"]


def test_pages_are_asked_for_again_by_their_tags(client: TestClient) -> None:
    for path in ("/", "/docs", "/page/app.js"):
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        packed = client.get(path, headers={"Accept-Encoding": "gzip"})
        for known in (plain, packed):
            again = client.get(path, headers={"If-None-Match": known.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        if "content-encoding" in packed.headers:  # is not the same bytes
            assert packed.headers["etag"] == f"W/{plain.headers['etag']}"


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("gzip;q=0", False), ("", False),
        ("gzip; q=0.000, *", False), ("identity", False), ("x-gzipped", False), ("*;q=0", False),
    ],
)  # fmt: skip
def test_answers_are_compressed_for_who_accepts_it(
    client: TestClient, accepted: str, packed: bool
) -> None:
    for path in ("/openapi.json", "/v1/search?q=red&k=100&explain=true"):
        found = client.get(path, headers={"Accept-Encoding": accepted})
        assert ("content-encoding" in found.headers) == packed, path

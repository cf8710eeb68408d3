import os
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from server.photo_files import keep_upload
from tests.server.apps import app_of, client_of
from tests.server.fake import DRAWINGS, FakeSearcher
from tests.server.writing.test_uploads import photo

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

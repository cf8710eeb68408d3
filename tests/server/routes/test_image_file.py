from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from tests.server.fake import DRAWINGS

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
    assert head.headers["cache-control"] == "private, max-age=3600"
    tag = head.headers["etag"]
    again = client.get(url, headers={"If-None-Match": f'"other", W/{tag}'})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["etag"] == tag
    assert client.get(url, headers={"If-None-Match": '"other"'}).status_code == 200
    part = client.get(url, headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"PNG")


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

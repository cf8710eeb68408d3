"""Small pictures over HTTP."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from server.backends import Backend
from tests.server.apps import app_of, client_of
from tests.server.fake import DRAWINGS, FakeSearcher


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

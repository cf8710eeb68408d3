from fastapi.testclient import TestClient

from tests.server.fake import FakeSearcher


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

from fastapi.testclient import TestClient

from tests.server.fake import FakeSearcher


def test_the_interface_is_documented(client: TestClient) -> None:
    assert client.get("/docs").status_code == 200


def test_searchers_are_closed_with_the_server(client: TestClient, searcher: FakeSearcher) -> None:
    assert not searcher.closed
    client.__exit__()
    assert searcher.closed

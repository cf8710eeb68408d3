from fastapi.testclient import TestClient


def test_a_server_that_answers_is_ok(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "ok"

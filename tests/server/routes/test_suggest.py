"""`/v1/suggest`: completions of the last word."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from tests.server.apps import app_of, client_of
from tests.server.fake import FakeDense


def suggestions(client: TestClient, **params: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/suggest", params=params)
    assert response.status_code == 200, response.text
    assert response.json()["query"] == params["q"]
    found: list[dict[str, Any]] = response.json()["suggestions"]
    return found


def test_the_last_word_is_completed(client: TestClient) -> None:
    assert suggestions(client, q="blue -r") == [{"text": "blue -red", "word": "red", "images": 3}]
    assert [one["word"] for one in suggestions(client, q="a gren")] == ["green"]
    assert suggestions(client, q="blue ") == suggestions(client, q="") == []


@pytest.mark.parametrize("params", [{}, {"q": "a", "k": 0}, {"q": "a", "k": 51}, {"q": "a" * 1001}])
def test_what_does_not_fit_is_refused(client: TestClient, params: dict[str, Any]) -> None:
    assert client.get("/v1/suggest", params=params).status_code == 422


def test_dense_models_know_no_words() -> None:
    client = client_of(app_of(Backend("vse++", FakeDense())))
    with client:
        assert client.get("/v1/suggest?q=re").status_code == 422

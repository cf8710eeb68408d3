"""`/v1/images/{image_id}/explain`: the score of one image, term by term."""

from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from tests.server.fake import DRAWINGS, FakeSearcher


def answer(client: TestClient, image_id: str, **params: Any) -> dict[str, Any]:
    response = client.get(f"/v1/images/{quote(image_id)}/explain", params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("query", ["red", "Red blue red", "azure qwx", "purple"])
def test_the_explanation_of_a_hit_is_that_of_its_search(client: TestClient, query: str) -> None:
    hits = client.get("/v1/search", params={"q": query, "explain": "true"}).json()["hits"]
    for hit in hits:
        found = answer(client, hit["image_id"], q=query)
        assert found["terms"] == hit["explanation"]
        for name in ("image_id", "score", "url", "metadata"):
            assert found[name] == hit[name]
    assert {hit["image_id"] for hit in hits} == {
        image_id for image_id in DRAWINGS if answer(client, image_id, q=query)["score"] > 0
    }


def test_an_image_that_is_no_hit_is_explained_too(client: TestClient) -> None:
    found = answer(client, "sea/a b.webp", q="red", backend="third")
    assert (found["query"], found["backend"], found["score"]) == ("red", "third", 0)
    assert [(term["term"], term["impact"]) for term in found["terms"]] == [("red", 0)]


def test_without_substitutes(client: TestClient) -> None:
    assert answer(client, "sea/a b.webp", q="azure")["score"] == 150
    assert answer(client, "sea/a b.webp", q="azure", substitute="false")["score"] == 0


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

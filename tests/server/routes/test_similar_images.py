"""`/v1/images/{image_id}/similar`: query by image."""

from typing import Any
from urllib.parse import quote

from fastapi.testclient import TestClient

from tests.server.fake import DRAWINGS, FakeSearcher


def answer(client: TestClient, image_id: str, **params: Any) -> dict[str, Any]:
    response = client.get(f"/v1/images/{quote(image_id)}/similar", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_hits_come_as_in_a_search_with_the_terms_asked_for(client: TestClient) -> None:
    found = answer(client, "garden/one.png", k=2)
    assert (found["image_id"], found["backend"]) == ("garden/one.png", "sparta")
    assert found["url"] == "/v1/images/garden/one.png/file"
    assert found["terms"] == [{"term": "red", "count": 176}, {"term": "green", "count": 79}]
    assert [hit.pop("image_id") for hit in found["hits"]] == ["garden/two.jpg", "Straße/海 é.jpg"]
    assert found["hits"][0] == {
        "rank": 1,
        "score": 176 * 120,
        "url": "/v1/images/garden/two.jpg/file",
        "metadata": {"width": 240, "height": 320},
        "view": None,
        "coverage": None,
        "explanation": None,
    }
    assert found["timings"] == {
        "tokenise_ms": 0.5,
        "encode_ms": 0.0,
        "search_ms": 1.5,
        "total_ms": 2.0,
        "explain_ms": None,
    }


def test_every_photo_finds_others_and_not_itself(client: TestClient) -> None:
    for image_id in DRAWINGS:
        hits = answer(client, image_id)["hits"]
        right = FakeSearcher().similar(image_id).hits
        assert [(h["image_id"], h["score"]) for h in hits] == [
            (hit.image_id, hit.score) for hit in right
        ]
        assert hits and image_id not in [hit["image_id"] for hit in hits]
        assert all(client.get(hit["url"]).status_code == 200 for hit in hits)


def test_several_images_and_words(client: TestClient) -> None:
    also = ["sea/a b.webp", "Straße/海 é.jpg"]
    found = answer(client, "garden/one.png", also=also, q="blue -green", k=5)
    assert (found["also"], found["query"]) == (also, "blue -green")
    assert [hit["image_id"] for hit in found["hits"]] == ["garden/two.jpg", "sea/100% #1?&+;=.png"]
    assert found["terms"][0]["term"] == "blue" and found["terms"][0]["count"] >= 128
    assert found["conditions"] == [{"word": "green", "sign": "-", "images": 1}]
    assert (found["unknown"], found["rare"], found["substitutions"]) == ([], [], [])
    response = client.get("/v1/images/garden/one.png/similar", params={"also": "no.jpg"})
    assert response.status_code == 404
    assert response.json()["detail"] == "image 'no.jpg' is not in the index"


def test_explanations_are_of_the_terms_asked_for(client: TestClient) -> None:
    found = answer(client, "garden/one.png", explain="true")
    assert found["timings"]["explain_ms"] >= 0
    counts = {term["term"]: term["count"] for term in found["terms"]}
    for hit in found["hits"]:
        assert {term["term"]: term["count"] for term in hit["explanation"]} == counts
        assert sum(term["score"] for term in hit["explanation"]) == hit["score"]


def test_backends_of_their_own(client: TestClient) -> None:
    found = answer(client, "garden/one.png", backend="vse++", explain="true")
    assert (found["backend"], found["terms"]) == ("vse++", [])
    assert found["url"] == "/v1/images/garden/one.png/file?backend=vse%2B%2B"
    assert len(found["hits"]) == 4 and found["hits"][0]["explanation"] is None
    assert found["timings"]["explain_ms"] is None
    assert answer(client, "garden/one.png", backend="other one")["url"] is None

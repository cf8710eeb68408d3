from typing import Any

from fastapi.testclient import TestClient

from tests.server.fake import LEFT, RIGHT, FakeSearcher


def answer(client: TestClient, **params: Any) -> dict[str, Any]:
    response = client.get("/v1/search", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_hits_come_with_rank_score_metadata_and_url(client: TestClient) -> None:
    found = answer(client, q="red blue", k=2)
    assert found["query"] == "red blue"
    assert found["backend"] == "sparta"
    assert found["unknown"] == []
    assert found["timings"] == {
        "tokenise_ms": 0.25,
        "encode_ms": 0.0,
        "search_ms": 1.0,
        "total_ms": 1.25,
        "explain_ms": None,
    }
    assert found["hits"] == [
        {
            "rank": 1,
            "image_id": "garden/two.jpg",
            "score": 330,
            "url": "/v1/images/garden/two.jpg/file",
            "metadata": {"width": 240, "height": 320},
            "view": None,
            "explanation": None,
        },
        {
            "rank": 2,
            "image_id": "garden/one.png",
            "score": 200,
            "url": "/v1/images/garden/one.png/file",
            "metadata": {"width": 320, "height": 240},
            "view": None,
            "explanation": None,
        },
    ]


def test_explanation_tells_each_term_with_its_box(client: TestClient) -> None:
    found = answer(client, q="Red blue red", k=1, explain="true")
    assert found["timings"]["explain_ms"] >= 0
    shared = {"region": 0, "box": list(RIGHT), "label": None}
    assert found["hits"][0]["explanation"] == [
        {"term": "red", "word": "Red", "count": 2, "impact": 120, "score": 240} | shared,
        {"term": "blue", "word": "blue", "count": 1, "impact": 210, "score": 210}
        | {"region": 1, "box": list(LEFT), "label": None},
    ]
    other = answer(client, q="green blue", k=5, explain="true")["hits"][-1]
    assert other["image_id"] == "garden/one.png"
    assert other["explanation"][1] | {"word": ""} == {
        "term": "blue",
        "word": "",
        "count": 1,
        "impact": 0,
        "score": 0,
        "region": None,
        "box": None,
        "label": None,
    }
    assert other["explanation"][0]["label"] == {"token": "green", "words": "dark green"}


def test_unknown_words_alone_have_no_hits(client: TestClient) -> None:
    found = answer(client, q="zyzzyva qwx")
    assert found["hits"] == []
    assert found["unknown"] == ["zyzzyva", "qwx"]


def test_k_defaults_to_ten_and_may_exceed_the_corpus(client: TestClient) -> None:
    assert len(answer(client, q="red green blue", k=1000)["hits"]) == 5
    assert len(answer(client, q="red", k=1)["hits"]) == 1


def test_a_query_may_be_as_long_as_the_limit(client: TestClient) -> None:
    assert answer(client, q=("red " * 250).strip().ljust(1000, "x"))["query"].startswith("red red")


def test_urls_lead_to_the_photo_in_the_same_backend(client: TestClient) -> None:
    assert answer(client, q="red", backend="other one")["hits"][0]["url"] is None
    for hit in answer(client, q="red green blue", backend="third")["hits"]:
        assert hit["url"].endswith("/file?backend=third")
        assert client.get(hit["url"]).status_code == 200


def test_backends_are_listed_default_first(client: TestClient) -> None:
    assert client.get("/v1/backends").json()["backends"][:2] == [
        {
            "name": "sparta",
            "default": True,
            "images": 5,
            "photos": True,
            "explains": True,
            "examples": ["red", "blue things"],
        },
        {
            "name": "other one",
            "default": False,
            "images": 5,
            "photos": False,
            "explains": True,
            "examples": [],
        },
    ]


def test_a_dense_backend_has_no_explanation_but_views(client: TestClient) -> None:
    listed = client.get("/v1/backends").json()["backends"][-1]
    assert (listed["name"], listed["explains"]) == ("vse++", False)
    found = answer(client, q="red qwx", k=2, explain="true", backend="vse++")
    assert (found["backend"], found["unknown"]) == ("vse++", ["qwx"])
    assert found["timings"] == {
        "tokenise_ms": 0.25,
        "encode_ms": 12.5,
        "search_ms": 1.0,
        "total_ms": 13.75,
        "explain_ms": None,
    }
    assert [(h["image_id"], h["score"], h["view"]) for h in found["hits"]] == [
        ("garden/one.png", 0.2, 0),
        ("garden/two.jpg", 0.12, 1),
    ]
    for hit in found["hits"]:
        assert hit["explanation"] is None
        assert hit["url"].endswith("/file?backend=vse%2B%2B")
        assert client.get(hit["url"]).status_code == 200
    assert len(answer(client, q="zzz", k=100, backend="vse++")["hits"]) == 5


def test_health_and_docs(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/docs").status_code == 200


def test_searchers_are_closed_with_the_server(client: TestClient, searcher: FakeSearcher) -> None:
    assert not searcher.closed
    client.__exit__()
    assert searcher.closed

from fastapi.testclient import TestClient


def test_backends_are_listed_default_first(client: TestClient) -> None:
    assert client.get("/v1/backends").json()["backends"][:2] == [
        {
            "name": "sparta",
            "default": True,
            "images": 5,
            "missing_images": 0,
            "photos": True,
            "explains": True,
            "examples": ["red", "blue things"],
        },
        {
            "name": "other one",
            "default": False,
            "images": 5,
            "missing_images": 0,
            "photos": False,
            "explains": True,
            "examples": [],
        },
    ]

from typing import Any

import pytest
from fastapi.testclient import TestClient

from server.problems import KINDS
from server.security.guards import SECURITY_HEADERS

INVALID, BACKEND, IMAGE = "invalid-parameter", "unknown-backend", "unknown-image"
CASES = [
    ("/v1/search", 422, INVALID, "q", "give at least one word"),
    ("/v1/search?q=", 422, INVALID, "q", "the query is empty"),
    ("/v1/search?q=%20%09%0A%E3%80%80", 422, INVALID, "q", "the query is empty"),
    (f"/v1/search?q={'a' * 1001}", 422, INVALID, "q", "at most 1000 characters (found 'aaa"),
    ("/v1/search?q=red&k=0", 422, INVALID, "k", "greater than or equal to 1 (found '0')"),
    ("/v1/search?q=red&k=1001", 422, INVALID, "k", "less than or equal to 1000"),
    ("/v1/search?q=red&k=ten", 422, INVALID, "k", "valid integer"),
    ("/v1/search?q=red&explain=perhaps", 422, INVALID, "explain", "boolean"),
    ("/v1/search?q=red&backend=faiss", 404, BACKEND, "backend", "has: sparta, other one"),
    ("/v1/search?q=red&backend=vse++", 404, BACKEND, "backend", "vse++ (write + as %2B"),
    ("/v1/images/none.jpg", 404, IMAGE, "image_id", "'none.jpg' is not in the index"),
    ("/v1/images/none.jpg/file", 404, IMAGE, "image_id", "'none.jpg' is not in the index"),
    ("/v1/images/none.jpg/similar", 404, IMAGE, "image_id", "'none.jpg' is not in the index"),
    ("/v1/images/garden/one.png%00/similar", 404, IMAGE, "image_id", "is not in the index"),
    ("/v1/images/garden/one.png/similar?k=0", 422, INVALID, "k", "greater than or equal to 1"),
    ("/v1/images/garden/one.png/similar?k=1001", 422, INVALID, "k", "less than or equal to 1000"),
    ("/v1/images/garden/one.png/similar?explain=perhaps", 422, INVALID, "explain", "boolean"),
    ("/v1/images/garden/one.png/similar?backend=x", 404, BACKEND, "backend", "'x' is unknown"),
    ("/v1/images/garden/one.png?backend=x", 404, BACKEND, "backend", "'x' is unknown"),
    ("/v1/images/", 404, IMAGE, "image_id", "'' is not in the index"),
]


def problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    for name in SECURITY_HEADERS:
        assert name in response.headers
    body = response.json()
    assert body["status"] == status
    assert {"type", "title", "detail", "instance"} <= set(body)
    return body


@pytest.mark.parametrize(("url", "status", "kind", "field", "detail"), CASES)
def test_each_bad_request_is_a_problem(
    client: TestClient, url: str, status: int, kind: str, field: str, detail: str
) -> None:
    body = problem(client.get(url), status)
    assert body["type"] == f"urn:problem-type:visualsparta:{kind}"
    assert body["title"] == KINDS[kind][1]
    assert body["field"] == field
    assert detail in body["detail"]
    assert body["instance"] == url.split("?")[0]
    assert len(body["detail"]) < 300


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/search/", "/page/none.js", "/page/"])
def test_unknown_routes(client: TestClient, path: str) -> None:
    body = problem(client.get(path), 404)
    assert body["type"] == "about:blank"
    assert body["title"] == "Not Found"


@pytest.mark.parametrize("path", ["/v1/backends", "/v1/images/garden/one.png/file", "/"])
def test_wrong_methods(client: TestClient, path: str) -> None:
    response = client.post(path)
    assert "POST" in problem(response, 405)["detail"]
    assert "GET" in response.headers["allow"]
    assert client.delete("/v1/search?q=red").headers["allow"] == "GET, POST"
    assert client.get("/v1/sign-in").headers["allow"] == "POST"


def test_unexpected_errors_show_no_internals(client: TestClient) -> None:
    response = client.get("/v1/search?q=explode")
    assert problem(response, 500)["title"] == "Internal Server Error"
    for inner in ("secret", "someone", "RuntimeError", "Traceback"):
        assert inner not in response.text


def test_the_description_names_every_error(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    assert "HTTPValidationError" not in str(description)
    paths = description["paths"]
    for url, status, kind, _, _ in CASES:
        path = "/v1/search"
        if url.startswith("/v1/images"):
            last = url.partition("?")[0].rpartition("/")[2]
            path = "/v1/images/{image_id}" + f"/{last}" * (last in ("file", "similar"))
        content = paths[path]["get"]["responses"][str(status)]["content"]
        examples = content["application/problem+json"]["examples"]
        assert examples[kind]["value"]["status"] == status
        reference = content["application/problem+json"]["schema"]["$ref"]
        assert reference.rpartition("/")[2] in description["components"]["schemas"]
    assert "422" not in paths["/v1/images/{image_id}"]["get"]["responses"]
    assert list(paths["/v1/images/{image_id}/file"]["get"]["responses"]["200"]["content"]) == [
        "image/*"
    ]

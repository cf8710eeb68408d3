"""Errors are problems, and every answer is as the OpenAPI document says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient
from schemathesis.core import NOT_SET

from server.backends import Backend
from server.problems import KINDS
from server.security.guards import SECURITY_HEADERS
from tests.server.apps import app_of
from tests.server.fake import FakeDense, FakeSearcher
from tests.server.live import serving
from tests.server.refusals import filter_failure

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


HOOKS = Path(__file__).with_name("refusals.py")
EXAMPLES = 15  # of each operation, besides those that cover the document

# Random ids are never there; this one is.
THERE = """
[parameters]
image_id = "garden/one.png"
[generation]
mode = "positive"
"""


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    sparta = Backend("sparta", FakeSearcher(quick=True), photos)
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield address


@pytest.mark.parametrize("configuration", ["", THERE], ids=["anything", "there"])
def test_answers_are_as_documented(address: str, tmp_path: Path, configuration: str) -> None:
    file = tmp_path / "schemathesis.toml"
    file.write_text(f'hooks = "{HOOKS}"\n{configuration}')
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "run"]
    command += [f"{address}/openapi.json", "--checks", "all", "--continue-on-failure"]
    command += ["--generation-deterministic", "--max-examples", str(EXAMPLES), "--no-color"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"Tested: 23\b", run.stdout)


def test_a_blank_query_does_not_fit_the_document() -> None:
    app = app_of(Backend("sparta", FakeSearcher()))
    parameters = app.openapi()["paths"]["/v1/search"]["get"]["parameters"]
    [q] = [one["schema"] for one in parameters if one["name"] == "q"]
    assert (q["minLength"], q["maxLength"]) == (1, 1000)
    blanks = [chr(code) for code in range(0x110000) if not chr(code).strip()]
    assert len(blanks) > 20
    pattern = re.compile(q["pattern"])
    assert not any(map(pattern.search, blanks))
    assert all(map(pattern.search, ["a", " é ", "\0", "\u200b", "犬"]))


def test_operations_have_names() -> None:
    app = app_of(Backend("sparta", FakeSearcher()))
    paths = app.openapi()["paths"].values()
    names = [operation["operationId"] for path in paths for operation in path.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in names)


@pytest.mark.parametrize(
    ("query", "body", "status", "reported"),
    [
        ({"q": "dogs"}, NOT_SET, 422, True),
        ({"q": "dogs", "filter": "taken:2024"}, NOT_SET, 422, False),
        ({"q": "dogs", "filter": "taken:2024"}, NOT_SET, 404, True),
        (None, {"q": "dogs", "sort": "taken"}, 422, False),
        (None, {"q": "dogs"}, 422, True),
        (None, {"k": 3}, 422, False),
        ({"k": 3}, NOT_SET, 422, False),
    ],
)
def test_only_requests_that_no_schema_describes_may_be_refused(
    query: dict[str, str] | None, body: object, status: int, reported: bool
) -> None:
    case: Any = SimpleNamespace(query=query, body=body, path="/v1/search")
    response: Any = SimpleNamespace(status_code=status)
    failure: Any = SimpleNamespace(checks=("positive_data_acceptance",))
    assert filter_failure(Mock(), failure, case, response) == reported

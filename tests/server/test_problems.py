"""Errors are problems, answers are as the OpenAPI document says, and bodies are limited."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import TypeAdapter, ValidationError

from server import requests
from server.backends import Backend
from server.problems import KINDS, ProblemError
from server.requests import MANY, check_elements, problem_of, read_json
from server.security.guards import SECURITY_HEADERS
from server.writing.bodies import DELETE, IDS, IMAGE, LINE
from tests.needs import EVERY
from tests.server.apps import app_of, client_of, make_key, serving
from tests.server.fake import FakeDense, FakeSearcher

INVALID, BACKEND, UNKNOWN = "invalid-parameter", "unknown-backend", "unknown-image"
DENSE = "backend=vse%2B%2B"
CASES = [
    ("/v1/search", 422, INVALID, "q", "give at least one word"),
    ("/v1/search?q=%20%09%0A%E3%80%80", 422, INVALID, "q", "the query is empty"),
    (f"/v1/search?q={'a' * 1001}", 422, INVALID, "q", "at most 1000 characters (found 'aaa"),
    ("/v1/search?q=red&k=0", 422, INVALID, "k", "greater than or equal to 1 (found '0')"),
    ("/v1/search?q=red&k=ten", 422, INVALID, "k", "valid integer"),
    ("/v1/search?q=red&explain=perhaps", 422, INVALID, "explain", "boolean"),
    ("/v1/search?q=red&backend=faiss", 404, BACKEND, "backend", "has: sparta, other one"),
    ("/v1/search?q=red&backend=vse++", 404, BACKEND, "backend", "vse++ (write + as %2B"),
    (
        "/v1/search?q=red blue^0",
        422,
        INVALID,
        "q",
        "q: a weight is a whole number from 1 to 100 (c",
    ),
    (f"/v1/search?q=red blue^0&{DENSE}", 422, INVALID, "q", "from 1 to 100 (column 10)"),
    (
        f"/v1/search?q=red -blue&{DENSE}",
        422,
        INVALID,
        "q",
        "a dense model has no signs and weights",
    ),
    (f"/v1/search?q=red&min_coverage=.5&{DENSE}", 422, INVALID, "min_coverage", ""),
    (
        "/v1/search?q=red&filters=a:1",
        422,
        INVALID,
        "filters",
        "no such field; do you mean filter?",
    ),
    ("/v1/search?query=red", 422, INVALID, "query", "query: there is no such field"),
    ("/v1/suggest?q=red&limit=3", 422, INVALID, "limit", "there is no such parameter"),
    ("/v1/fields?backends=sparta", 422, INVALID, "backends", "do you mean backend?"),
    ("/v1/images/garden/one.png/similar?wrods=a", 422, INVALID, "wrods", "no such parameter"),
    ("/v1/images/garden/one.png/thumbnail?sizes=256", 422, INVALID, "sizes", "do you mean size?"),
    ("/v1/backends?K=3", 422, INVALID, "K", "there is no such parameter"),
    ("/v1/search?Q=red", 422, INVALID, "Q", "Q: there is no such field; do you mean q?"),
    ("/v1/images/none.jpg", 404, UNKNOWN, "image_id", "'none.jpg' is not in the index"),
    ("/v1/images/none.jpg/similar", 404, UNKNOWN, "image_id", "'none.jpg' is not in the index"),
    ("/v1/images/garden/one.png/similar?k=0", 422, INVALID, "k", "greater than or equal to 1"),
    ("/v1/images/garden/one.png?backend=x", 404, BACKEND, "backend", "'x' is unknown"),
    ("/v1/images/", 404, UNKNOWN, "image_id", "'' is not in the index"),
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


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/search", {"q": "red", "filters": "a:1"}, "filters"),
        ("/v1/search", {"queries": [{"q": "red"}, {"q": "red", "kk": 1}]}, "kk"),
        ("/v1/search?k=3", {"q": "red"}, "k"),
        ("/v1/images/count", {"filtre": "a:1"}, "filtre"),
    ],
)
def test_unknown_names_in_bodies(
    client: TestClient, path: str, body: dict[str, Any], name: str
) -> None:
    found = problem(client.post(path, json=body), 422)
    assert found["field"] == name and f"{name}: there is no such" in found["detail"]


def test_health_checks_take_any_parameter(client: TestClient) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        assert client.get(f"{path}?anything=1").status_code == 200


def test_wrong_paths_and_methods(client: TestClient) -> None:
    for path in ("/nowhere", "/v1", "/v1/search/", "/page/none.js", "/page/"):
        body = problem(client.get(path), 404)
        assert (body["type"], body["title"]) == ("about:blank", "Not Found")
    for path in ("/v1/backends", "/v1/images/garden/one.png/file", "/"):
        response = client.post(path)
        assert "POST" in problem(response, 405)["detail"]
        assert "GET" in response.headers["allow"]
    assert client.delete("/v1/search?q=red").headers["allow"] == "GET, HEAD, POST"
    assert client.get("/v1/sign-in").headers["allow"] == "POST"


def test_unexpected_errors_show_no_internals(client: TestClient) -> None:
    response = client.get("/v1/search?q=explode")
    assert problem(response, 500)["title"] == "Internal Server Error"
    for inner in ("secret", "someone", "RuntimeError", "Traceback"):
        assert inner not in response.text


HOOKS = Path(__file__).with_name("refusals.py")
EXAMPLES = 15 if EVERY else 5  # of each operation, besides those that cover the document

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


def document(address: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{address}/openapi.json", timeout=60).json()
    return found


@pytest.mark.parametrize("configuration", ["", THERE], ids=["anything", "there"])
def test_answers_are_as_documented(address: str, tmp_path: Path, configuration: str) -> None:
    file = tmp_path / "schemathesis.toml"
    file.write_text(f'hooks = "{HOOKS}"\n{configuration}')
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "run"]
    command += [f"{address}/openapi.json", "--checks", "all", "--continue-on-failure"]
    command += ["--generation-deterministic", "--max-examples", str(EXAMPLES), "--no-color"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    operations = [one for path in document(address)["paths"].values() for one in path]
    assert re.search(rf"Tested: {len(operations)}\b", run.stdout)


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


JSON = {"Content-Type": "application/json"}
FILTER = {"must": [{"key": "a", "match": {"value": 1}}]}


def numbers(count: int) -> bytes:
    return b'{"ids":[' + b"1," * (count - 1) + b"1]}"


@pytest.fixture
def writing(file: Path) -> TestClient:
    headers = {"Authorization": f"Bearer {make_key(file, 'write')}"}
    return client_of(app_of(Backend("sparta", FakeSearcher()), keys=file), headers=headers)


def test_elements_are_counted_before_a_parser_sees_them() -> None:
    check_elements(b'{"a": [[1], {"b": 2}]}', 5)
    with pytest.raises(ProblemError, match="more than 4 elements") as error:
        check_elements(b'{"a": [[1], {"b": 2}]}', 4)
    assert error.value.kind == "body-too-large"
    text = b"[" + b"[]," * 5_000_000 + b"1]"
    tracemalloc.start()
    with pytest.raises(ProblemError, match="more than 300,000 elements"):
        read_json(IDS, text)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "body", "place"),
    [
        (IDS, list(range(50_000)), "0: Input should be a valid string"),
        (DELETE, {"ids": list(range(50_000))}, "ids.0: Input should be a valid string"),
        (DELETE, {f"k{i}": 1 for i in range(50_000)}, "k0: there is no such field"),
        (IMAGE, {"terms": {f"k{i}": "x" for i in range(50_000)}}, "terms.k0: Input should be"),
        (IMAGE, {"terms": {"red": 1}, **{f"k{i}": 1 for i in range(50_000)}}, "k0: there is no"),
        (
            IMAGE,
            {"features": {"features": [["x"] * 9] * 9000, "boxes": [], "width": 1, "height": 1}},
            "features.features.0.0: Input should be a valid number",
        ),
        (LINE, {"image_id": "a", "terms": {f"k{i}": "x" for i in range(50_000)}}, "terms.k0: Inp"),
        (IMAGE, {"features": {f"k{i}": 1 for i in range(50_000)}}, "features: k0: there is no"),
    ],
)
def test_reading_ends_at_the_first_error(kind: TypeAdapter[Any], body: Any, place: str) -> None:
    with pytest.raises(ValidationError) as error:
        read_json(kind, json.dumps(body).encode())
    assert error.value.error_count() <= 1000  # and not one for each element
    assert problem_of(error.value).startswith(place)


def test_many_terms_are_read_whole() -> None:
    terms = {f"k{i}": i / 2 for i in range(2500)}
    assert read_json(IMAGE, json.dumps({"terms": terms}).encode()).terms == terms


@pytest.mark.parametrize(
    ("path", "body", "status", "detail"),
    [
        ("images/delete", numbers(MANY + 9), 413, "more than 100,000 elements"),
        ("images/delete", numbers(MANY - 9), 422, "ids.0: Input should be a valid string"),
        ("images/delete", b'{"ids": ["a",]}', 422, "line 1 column 14"),
        ("images/delete", b'{"filter":' + b"[" * 9000, 422, "recursion limit exceeded at line 1"),
        ("images/delete", b'{"filter":{"a":' + b"9" * 10**6 + b"}}", 422, "number out of range"),
        ("search", b'{"q": "red",}', 400, "line 1 column 13"),
        ("search", b'{"filter":' + b"[" * 9000, 400, "recursion limit exceeded at line 1"),
        ("search", b'{"filter":{"a":' + b"9" * 60_000 + b"}}", 400, "number out of range"),
        ("search", b'{"filter":{"a":1e400000}}', 422, "filter"),
        ("search", b'{"q": "\xff"}', 400, "line 1 column 8"),
        ("search", b'{"queries":[' + b"1," * 30_000 + b"1]}", 422, "0: input should be a valid"),
        ("images/count", b"{", 400, "EOF while parsing an object at line 1"),
        ("sign-in", b"[" * 60_000, 400, "recursion limit exceeded at line 1"),
    ],
)
def test_the_answer_names_the_place(
    writing: TestClient, path: str, body: bytes, status: int, detail: str
) -> None:
    answer = writing.post(f"/v1/{path}", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize("path", ["search", "images/count", "images/delete", "sign-in"])
def test_bodies_are_read_beside_the_event_loop(
    writing: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing: list[bool] = []

    def note(text: bytes, most: int) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        parsing.append(threading.current_thread() is not threading.main_thread())

    monkeypatch.setattr(requests, "check_elements", note)
    writing.post(f"/v1/{path}", json={"filter": FILTER, "q": "red", "key": "x"})
    assert parsing == [True]


def test_searches_are_answered_while_large_bodies_are_refused(file: Path) -> None:
    """Each of these took a second and more of the event loop, the largest a minute."""
    headers = {"Authorization": f"Bearer {make_key(file, 'write')}", **JSON}
    app = app_of(Backend("sparta", FakeSearcher()), keys=file, rate=0)
    bodies = [
        numbers(500_000),
        numbers(MANY - 9),
        numbers(4_000_000),
        json.dumps({f"k{i}": 1 for i in range(MANY - 9)}).encode(),
        b'{"ids":[' + b",".join([b"1" * 4000] * 2000) + b"]}",
    ]

    async def run() -> tuple[list[int], float]:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            searching, slowest = True, 0.0

            async def search() -> None:
                nonlocal slowest
                while searching:
                    start = time.perf_counter()
                    answer = await client.get("/v1/search?q=red", headers=headers)
                    assert answer.status_code == 200
                    slowest = max(slowest, time.perf_counter() - start)
                    await asyncio.sleep(0.001)

            watching = asyncio.create_task(search())
            sent = [
                client.post("/v1/images/delete", content=body, headers=headers) for body in bodies
            ]
            statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
            searching = False
            await watching
            return statuses, slowest

    statuses, slowest = asyncio.run(run())
    assert statuses == [413, 422, 413, 422, 422]
    assert slowest < 1  # some 0.05 on an idle machine

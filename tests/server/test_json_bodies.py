"""JSON that clients send: limits, where it is read, and the first error."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import TypeAdapter, ValidationError

from server import requests
from server.backends import Backend
from server.problems import ProblemError
from server.requests import MANY, check_elements, problem_of, read_json
from server.writing.bodies import DELETE, IDS, IMAGE, LINE
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher

JSON = {"Content-Type": "application/json"}
FILTER = {"must": [{"key": "a", "match": {"value": 1}}]}


def numbers(count: int) -> bytes:
    return b'{"ids":[' + b"1," * (count - 1) + b"1]}"


@pytest.fixture
def client(file: Path) -> TestClient:
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
    client: TestClient, path: str, body: bytes, status: int, detail: str
) -> None:
    answer = client.post(f"/v1/{path}", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize("path", ["search", "images/count", "images/delete", "sign-in"])
def test_bodies_are_read_beside_the_event_loop(
    client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing: list[bool] = []

    def note(text: bytes, most: int) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        parsing.append(threading.current_thread() is not threading.main_thread())

    monkeypatch.setattr(requests, "check_elements", note)
    client.post(f"/v1/{path}", json={"filter": FILTER, "q": "red", "key": "x"})
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

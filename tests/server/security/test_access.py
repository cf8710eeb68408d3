"""What is answered, to whom and how often."""

from __future__ import annotations

import asyncio
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Mount, Route

from server.backends import Backend
from server.security import access
from server.security.access import MAX_BODY, MAX_DELETED, Buckets, RateLimit, in_process, requires
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher

SEARCH = "/v1/search?q=red"
ELSEWHERE = "192.0.2.7"
# What no key is needed for: the page, signing in, and the checks of health.
OPEN = {"/", "/page/app.js", "/livez", "/readyz", "/v1/sign-in", "/v1/sign-out"}
# What the OpenAPI document does not list, or what resembles an open path.
BESIDE = ["/docs", "/openapi.json", "/metrics", "/nowhere", "/page", "/livez/", "/v1/session/"]


@pytest.fixture
def app(photos: Path, file: Path) -> FastAPI:
    app = app_of(Backend("sparta", FakeSearcher(), photos), keys=file, rate=1, concurrency=2)
    router = APIRouter()

    @router.post("/v1/change", dependencies=[requires("write")])
    async def change() -> None:
        """Stands for a route that changes something."""

    app.include_router(router)
    return app


@pytest.fixture
def elsewhere(app: FastAPI) -> TestClient:
    """A client on another machine."""
    return client_of(app, address=ELSEWHERE)


def ask(client: TestClient, path: str, key: str = "", method: str = "GET") -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return client.request(method, path, headers=headers)


def test_every_route_is_guarded_or_open(photos: Path, file: Path) -> None:
    """For other machines, with and without a file of keys; a new route is guarded."""
    app = app_of(Backend("sparta", FakeSearcher(), photos), keys=file, rate=0)
    client, paths = client_of(app, address=ELSEWHERE), app.openapi()["paths"]
    routes = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    routes += [("GET", path) for path in (*BESIDE, *OPEN - paths.keys())]
    for _ in ("no keys", "keys"):
        for method, path in routes:
            answer = ask(client, path.replace("{image_id}", "garden/one.png"), method=method)
            if path in OPEN:
                assert answer.status_code in (200, 204, 422), path
                continue
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == 'Bearer realm="VisualSparta"'
            assert answer.json()["type"].endswith(":key-needed")
            assert "content-security-policy" in answer.headers
        make_key(file)
    assert {route.path for route in app.routes if isinstance(route, Route | Mount)} <= {
        *("/", "/page", *BESIDE, "/docs/oauth2-redirect")
    }


def test_a_key_for_searching_changes_nothing(elsewhere: TestClient, file: Path) -> None:
    search, write = make_key(file), make_key(file, "write")
    metrics, admin = make_key(file, "metrics"), make_key(file, "admin")
    expected = {search: (200, 403, 403), write: (200, 200, 403), admin: (200, 200, 200)}
    for key, statuses in (expected | {metrics: (403, 403, 403)}).items():
        asked = (SEARCH, "GET"), ("/v1/change", "POST"), ("/v1/keys", "GET")
        assert tuple(ask(elsewhere, path, key, how).status_code for path, how in asked) == statuses
    refused = ask(elsewhere, "/v1/keys", search).json()
    assert refused["type"].endswith(":scope-missing")
    assert "needs a key of scope admin; the key" in refused["detail"]


def test_what_changes_something_needs_a_key_on_this_machine_too(app: FastAPI) -> None:
    client = client_of(app)
    assert ask(client, SEARCH).status_code == 200
    assert ask(client, "/v1/change", method="POST").status_code == 401
    refused = ask(client, "/v1/keys")
    assert refused.status_code == 401 and "--scope admin" in refused.json()["detail"]


def test_code_in_this_process_needs_no_key(app: FastAPI, file: Path) -> None:
    make_key(file)
    client = TestClient(in_process(app), base_url="http://localhost")
    assert [ask(client, SEARCH).status_code for _ in range(30)] == [200] * 30
    assert ask(client, "/v1/keys").status_code == 401


def test_a_key_is_revoked_at_once(elsewhere: TestClient, file: Path) -> None:
    key = make_key(file)
    assert ask(elsewhere, SEARCH, key).status_code == 200
    file.write_text('{"format_version": 1, "keys": []}')
    answer = ask(elsewhere, SEARCH, key)
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_keys_in_addresses_are_no_keys(elsewhere: TestClient, file: Path) -> None:
    key = make_key(file)
    for name in ("key", "api_key", "x-api-key", "access_token", "sparta_key"):
        assert elsewhere.get(f"{SEARCH}&{name}={key}").status_code == 401


def test_answers_never_show_a_key(app: FastAPI, file: Path) -> None:
    client, key = client_of(app, address=ELSEWHERE), make_key(file, "metrics")
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    for sent in (key, wrong):
        answers: list[Any] = [
            ask(client, SEARCH, sent),
            client.post("/v1/sign-in", json={"key": sent}),
        ]
        answers.append(client.post("/v1/sign-in", content=f'{{"key": "{sent}"'))
        answers.append(client.post("/v1/sign-in", json=[sent]))
        for answer in answers:
            assert answer.status_code >= 400
            assert sent[-20:] not in answer.text + str(answer.headers)


# ---- limits --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "monotonic", lambda: 1000.0)


def statuses(client: TestClient, count: int, key: str = "", path: str = SEARCH) -> list[int]:
    return [ask(client, path, key).status_code for _ in range(count)]


def test_a_key_has_a_rate(app: FastAPI, file: Path) -> None:
    client, key, other = client_of(app), make_key(file), make_key(file)
    assert statuses(client, 11, key) == [200] * 10 + [429]
    assert statuses(client_of(app, address=ELSEWHERE), 1, key) == [429]
    answer = ask(client, SEARCH, key)
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["type"].endswith(":too-many-requests")
    assert statuses(client, 1, other) == [200]


def test_an_address_without_a_key_has_a_rate(app: FastAPI, file: Path) -> None:
    make_key(file)
    client = client_of(app, address=ELSEWHERE)
    assert statuses(client, 11) == [401] * 10 + [429]
    assert statuses(client, 1, path="/") == [429]
    assert statuses(client, 1, path="/livez") == [200]
    assert statuses(client_of(app, address="192.0.2.8"), 1) == [401]


def test_guesses_count(elsewhere: TestClient, file: Path) -> None:
    make_key(file)
    assert statuses(elsewhere, 11, "sparta_00000000_a") == [401] * 10 + [429]


def test_without_keys_or_a_rate_there_are_no_limits(app: FastAPI, file: Path) -> None:
    assert statuses(client_of(app), 30) == [200] * 30
    free = app_of(Backend("sparta", FakeSearcher()), keys=file, rate=0)
    assert statuses(client_of(free), 30, make_key(file)) == [200] * 30


def test_a_key_has_so_many_requests_at_once(file: Path) -> None:
    release = Event()

    class Waiting(FakeSearcher):
        def search(self, *arguments: Any, **options: Any) -> Any:
            release.wait(20)
            return super().search(*arguments, **options)

    app = app_of(Backend("sparta", Waiting()), keys=file, concurrency=2)
    first, second = ({"X-API-Key": make_key(file)} for _ in range(2))

    async def ask_all() -> tuple[int, str, list[int]]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            running = [asyncio.create_task(client.get(SEARCH, headers=first)) for _ in range(2)]
            running.append(asyncio.create_task(client.get(SEARCH, headers=second)))
            await asyncio.sleep(0.1)
            refused = await client.get(SEARCH, headers=first)
            release.set()
            ended = [(await one).status_code for one in running]
            again = await client.get(SEARCH, headers=first)
            return refused.status_code, refused.headers["retry-after"], [*ended, again.status_code]

    assert asyncio.run(ask_all()) == (429, "1", [200] * 4)


def test_bodies_have_a_limit_and_say_their_length(app: FastAPI, file: Path) -> None:
    client, key = client_of(app), make_key(file)
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    for size, status in {MAX_BODY: 422, MAX_BODY + 1: 413}.items():
        answer = client.post("/v1/sign-in", content=b" " * size, headers=headers)
        assert answer.status_code == status
    large = b" " * (MAX_BODY + 1)
    for path, status in {"batch": 403, "delete": 403, "count": 413, "a/count": 405}.items():
        answer = client.post(f"/v1/images/{path}", content=large, headers=headers)
        assert answer.status_code == status, path
    larger = b" " * (MAX_DELETED + 1)
    for method, path, status in (("POST", "delete", 413), ("PUT", "delete", 403)):
        answer = client.request(method, f"/v1/images/{path}", content=larger, headers=headers)
        assert answer.status_code == status
    assert client.put("/v1/images/a", content=large, headers=headers).status_code == 403
    assert client.patch("/v1/images/a", content=large, headers=headers).status_code == 413
    chunked = client.post("/v1/sign-in", content=iter([b"{}"]), headers=headers)
    assert chunked.status_code == 411


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.sampled_from([0, 1, 3, 8]), max_size=60))
def test_the_same_as_counted_tokens(pauses: list[int]) -> None:
    """Compared with tokens that are counted; times are eighths of a second, which are exact."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(access, "monotonic", clock)
        limit = RateLimit(4, 5, Buckets())
        tokens = 5.0
        for pause in pauses:
            clock.now += pause / 8
            tokens = min(5.0, tokens + 4 * pause / 8)
            assert limit.take("a") == max(0, (1 - tokens) / 4)
            tokens -= tokens >= 1


def _take(buckets: Buckets, times: int) -> int:
    limit = RateLimit(0.001, 10, buckets)
    return sum(limit.take("a") == 0 for _ in range(times))


def _take_and_report(buckets: Buckets, times: int, found: Any) -> None:
    found.put(_take(buckets, times))


def test_workers_share_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    context = get_context("spawn")
    buckets, found = Buckets(), context.Queue()
    worker = context.Process(target=_take_and_report, args=(buckets, 6, found))
    worker.start()
    assert found.get(timeout=30) == 6
    worker.join()
    assert _take(buckets, 6) == 4

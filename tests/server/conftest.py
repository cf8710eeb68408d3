"""Fixtures: the drawn photos, and a client of a server that shows them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect, sync_playwright

from server.backends import Backend
from tests.needs import find
from tests.server.apps import app_of, client_of, connected, make_key, serving
from tests.server.fake import FakeDense, FakeSearcher, draw

Connect = Callable[..., Any]

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def drawings(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the photos, which no test changes."""
    from tests.server.drawings import index_drawings  # which loads torch

    return index_drawings(tmp_path_factory.mktemp("drawings") / "index", photos)


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    """The address of a server of the drawings and of a dense model of them."""
    sparta = Backend("sparta", FakeSearcher(), photos, ("red", "blue green"))
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a server has its keys; there are none yet."""
    return tmp_path / "keys.json"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of `guarded`, to which tests may add others."""
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def write_key(keys: Path) -> str:
    return make_key(keys, "write")


@pytest.fixture(scope="module")
def guarded(photos: Path, keys: Path, write_key: str) -> Iterator[str]:
    """The address of a server with keys, which shows photos."""
    with serving(Backend("sparta", FakeSearcher(), photos), keys=keys) as address:
        yield address


@pytest.fixture
def searcher() -> FakeSearcher:
    return FakeSearcher()


@pytest.fixture
def client(photos: Path, searcher: FakeSearcher) -> Iterator[TestClient]:
    sparta = Backend("sparta", searcher, photos, ("red", "blue things"))
    blind = Backend("other one", FakeSearcher())
    seeing = Backend("third", FakeSearcher(), photos)
    dense = Backend("vse++", FakeDense(), photos)
    app = app_of(sparta, blind, seeing, dense)
    with client_of(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(params=["Client", "AsyncClient"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind, whose requests a handler answers if one is given."""
    with ExitStack() as stack:

        def connect(
            servers: str | Sequence[str],
            handler: Callable[[httpx.Request], httpx.Response] | None = None,
            **options: Any,
        ) -> Any:
            if handler is not None:
                options["transport"] = httpx.MockTransport(handler)
            return stack.enter_context(connected(request.param, servers, **options))

        yield connect


# Not of the session: Playwright runs an event loop in this thread until it ends.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=20_000)  # a loaded machine is slow
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("Chromium"), args=ARGUMENTS)
        yield browser
        browser.close()

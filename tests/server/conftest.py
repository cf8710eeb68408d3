"""Fixtures: the drawn photos, and a client of a server that shows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from tests.server.apps import app_of
from tests.server.fake import FakeDense, FakeSearcher, draw


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("photos"))


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
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client

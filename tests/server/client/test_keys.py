"""The clients and a server that has keys."""

from pathlib import Path

import pytest

import sparta
from server.backends import Backend
from tests.server.apps import make_key
from tests.server.client.clients import connected
from tests.server.fake import FakeSearcher, draw
from tests.server.live import serving


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_key_opens_a_server_that_has_keys(kind: str, tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.json")
    backend = Backend("sparta", FakeSearcher(), draw(tmp_path / "photos"))
    with serving(backend, keys=tmp_path / "keys.json") as address:
        with connected(kind, address, api_key=key) as client:
            assert client.search("red").hits and client.get_photo("garden/one.png").content
        with (
            connected(kind, address) as client,
            pytest.raises(sparta.ClientError, match="this needs an API key") as error,
        ):
            client.search("red")
    assert error.value.status == 401

"""What can be wrong with an immich server, in one line each."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Response

from sparta.errors import InputError
from sparta.immich.library import Library
from tests.sparta.immich.stub import KEY, StubAsset, StubImmich, running


def failure(address: str, key: str = KEY) -> str:
    with pytest.raises(InputError) as error, Library(address, key) as library:
        list(library.assets())
    return str(error.value)


def test_a_wrong_key() -> None:
    with running(StubImmich({}).app()) as address:
        assert failure(address, "other") == (
            f"{address} refuses the API key (status 401): it must allow asset.read, asset.view and "
            "asset.download"
        )
        with Library(f"{address}/api", KEY) as library:
            assert list(library.assets()) == []


def test_no_server() -> None:
    assert failure("http://127.0.0.1:1").startswith("http://127.0.0.1:1 does not answer: ")
    problem = "is not the address of a server; give one like http://localhost:2283"
    assert problem in failure("localhost:2283")


@pytest.mark.parametrize(
    "body", ["<p>Hello", "{}", '{"assets": {"items": [{}], "nextPage": null}}', "[]"]
)
def test_another_server(body: str) -> None:
    app = FastAPI()

    @app.post("/api/search/metadata")
    def search() -> Response:
        return Response(body, media_type="application/json")

    with running(app) as address:
        assert failure(address) == (f"{address} does not answer as immich does: check the address")


@pytest.mark.parametrize("wrong", ["../../etc/passwd", "a.jpg", ""])
def test_ids_that_are_none(wrong: str) -> None:
    asset: dict[str, Any] = {wrong: StubAsset("a.jpg", b"", b"")}
    with running(StubImmich(asset).app()) as address:
        assert "does not answer as immich does" in failure(address)

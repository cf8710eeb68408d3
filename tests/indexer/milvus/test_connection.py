"""Connections: what is repeated, and what errors say."""

from __future__ import annotations

import sys

import pytest

from indexer.milvus.connection import (
    ATTEMPTS,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Milvus,
    MilvusError,
)
from sparta.errors import InputError
from tests.milvus_server import free_port

pymilvus = pytest.importorskip("pymilvus", reason="extra [milvus] is not installed")
RATE_LIMIT = 8


class Refusing:
    """A client that has no capacity for the first calls."""

    def __init__(self, refusals: int, code: int = RATE_LIMIT) -> None:
        self.refusals, self.code, self.calls = refusals, code, 0

    def upsert(self, *arguments: object, **named: object) -> str:
        self.calls += 1
        assert named["retry_on_rate_limit"] is False
        if self.calls <= self.refusals:
            raise pymilvus.MilvusException(self.code, "request is rejected\nby the limiter")
        return "done"

    def close(self) -> None:
        self.calls = -1


def connected(client: Refusing, monkeypatch: pytest.MonkeyPatch) -> tuple[Milvus, list[float]]:
    pauses: list[float] = []
    monkeypatch.setattr(pymilvus, "MilvusClient", lambda *address, **named: client)
    return Milvus("milvus://there:19530", pause=pauses.append), pauses


def test_a_call_is_repeated_when_the_server_has_capacity_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    milvus, pauses = connected(Refusing(ATTEMPTS - 1), monkeypatch)
    assert milvus.call("upsert", "photos", []) == "done"
    assert len(pauses) == ATTEMPTS - 1
    for attempt, pause in enumerate(pauses):
        assert 0 <= pause <= min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt)
    assert len(set(pauses)) == len(pauses)


@pytest.mark.parametrize(("code", "calls"), [(RATE_LIMIT, ATTEMPTS), (1, 1)])
def test_what_fails_again_and_again_is_one_line(
    monkeypatch: pytest.MonkeyPatch, code: int, calls: int
) -> None:
    client = Refusing(100, code)
    milvus, _ = connected(client, monkeypatch)
    with pytest.raises(MilvusError) as caught:
        milvus.call("upsert", "photos", [])
    assert str(caught.value) == "milvus://there:19530: request is rejected"
    assert client.calls == calls
    milvus.close()
    assert client.calls == -1


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(
        pymilvus, "MilvusClient", lambda *uri, **named: given.append((*uri, named["token"]))
    )
    Milvus("milvus://there:19530/photos")
    monkeypatch.setenv("SPARTA_MILVUS_TOKEN", "root:secret")
    Milvus("https://there")
    assert given == [("http://there:19530/photos", ""), ("https://there", "root:secret")]


@pytest.mark.parametrize("uri", ["there:19530", "milvus.db", "milvus://me:secret@there:19530", ""])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(InputError, match=r"is no address of Milvus: give one such as milvus://127"):
        Milvus(uri)


def test_nobody_answers() -> None:
    uri = f"milvus://127.0.0.1:{free_port()}"
    with pytest.raises(MilvusError) as caught:
        Milvus(uri, seconds=0.5)
    wanted = f"{uri} does not answer, or not within 0.5 s: look whether Milvus runs there"
    assert str(caught.value) == wanted


def test_what_the_server_lacks(milvus: Milvus) -> None:
    with pytest.raises(MilvusError, match=f"^{milvus.uri}: UNIMPLEMENTED") as caught:
        milvus.call("create_alias", "photos", "alias")
    assert caught.value.unknown


def test_pymilvus_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(InputError, match=r"pip install 'visualsparta\[milvus\]'"):
        Milvus("milvus://there:19530")

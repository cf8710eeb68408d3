"""Connections to Milvus, its collections, and its best rows, which are exact."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.answer import RefusedError
from indexer.milvus import collection as collection_module
from indexer.milvus.collection import (
    KEY,
    Collection,
    Marker,
    check_exact,
    collection_name,
    marker_row,
)
from indexer.milvus.connection import Milvus, MilvusError
from indexer.milvus.engine import Row, best_rows
from indexer.store.commit import Commit
from sparta.errors import InputError
from tests.milvus_server import free_port
from tests.needs import package

pymilvus = package("pymilvus", "milvus")
as_in_the_client: Callable[[Any], Any] = pymilvus.decorators.retry_on_rpc_failure()
RATE_LIMIT = 8


class Refusing:
    """A client that has no capacity for the first calls."""

    def __init__(self, refusals: int, code: int = RATE_LIMIT) -> None:
        self.refusals, self.code, self.calls = refusals, code, 0

    @as_in_the_client
    def upsert(self, *arguments: object, **named: object) -> str:
        self.calls += 1
        if self.calls <= self.refusals:
            raise pymilvus.MilvusException(self.code, "request is rejected\nby the limiter")
        return "done"

    def close(self) -> None:
        self.calls = -1


@pytest.mark.parametrize(
    ("refusals", "code", "calls"), [(3, RATE_LIMIT, 4), (10**6, RATE_LIMIT, None), (100, 1, 1)]
)
def test_a_call_is_repeated_until_the_server_has_capacity_again(
    monkeypatch: pytest.MonkeyPatch, refusals: int, code: int, calls: int | None
) -> None:
    client = Refusing(refusals, code)
    monkeypatch.setattr(pymilvus, "MilvusClient", lambda *address, **named: client)
    milvus = Milvus("milvus://there:19530", seconds=0.5)
    if refusals < 100:
        assert milvus.call("upsert", "photos", []) == "done"
    else:
        with pytest.raises(MilvusError, match=r"^milvus://there:19530: .*request is rejected$"):
            milvus.call("upsert", "photos", [])
    assert client.calls == calls if calls else client.calls > 3
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


def test_an_address_where_nobody_answers_is_named() -> None:
    uri = f"milvus://127.0.0.1:{free_port()}"
    with pytest.raises(MilvusError) as caught:
        Milvus(uri, seconds=0.5)
    wanted = f"{uri} does not answer, or not within 0.5 s: look whether Milvus runs there"
    assert str(caught.value) == wanted


def test_what_the_server_lacks_is_known(milvus: Milvus) -> None:
    with pytest.raises(MilvusError, match=f"^{milvus.uri}: UNIMPLEMENTED") as caught:
        milvus.call("create_alias", "photos", "alias")
    assert caught.value.unknown


def test_pymilvus_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(InputError, match=r"pip install '.*\[milvus\]'"):
        Milvus("milvus://there:19530")


def test_names_of_collections() -> None:
    assert collection_name("photos_2", "0123456789ab") == "photos_2_0123456789ab"
    for wrong in ("", "2photos", "my-photos", "ü", "a" * 300):
        with pytest.raises(InputError, match=r"--collection .*: use letters, digits and _"):
            collection_name(wrong, "0")


@pytest.fixture
def made(milvus: Milvus, request: pytest.FixtureRequest) -> Collection:
    made = Collection(milvus, f"made_{abs(hash(request.node.name))}", 10)
    assert not made.exists()
    made.create()
    return made


def test_a_marker_is_no_image(made: Collection) -> None:
    assert made.marker() is None
    for complete in (False, True):
        made.mark(marker := Marker(Commit(3, 1, 200, "0"), complete))
        assert made.marker() == marker
        assert made.images() == 0
        assert list(made.keys()) == []
    made.upsert([marker_row("{}", 10)])
    with pytest.raises(InputError, match=f"{made.name} was not written by this version: drop it"):
        made.marker()
    made.drop()
    assert not made.exists()


def test_keys_come_in_parts(made: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{number:02x}" for number in range(20)]
    made.upsert([marker_row("", 10) | {KEY: key} for key in reversed(keys)])
    monkeypatch.setattr(collection_module, "MOST_ROWS", 7)
    assert list(made.keys()) == keys
    made.delete([keys[3], "ff"])
    assert list(made.keys()) == [*keys[:3], *keys[4:]]


def test_a_server_must_rank_by_inner_products(
    milvus: Milvus, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_exact(milvus, "exact")
    assert not Collection(milvus, "exact_probe", 4).exists()
    nearest = Collection.nearest

    def as_bm25(collection: Collection, *arguments: Any) -> list[tuple[float, str]]:
        return [(score / 2, key) for score, key in nearest(collection, *arguments)]

    monkeypatch.setattr(Collection, "nearest", as_bm25)
    Collection(milvus, "exact_probe", 4).create()  # as a killed one left it
    with pytest.raises(InputError, match=r"does not rank .*, as Milvus 2.5 and later"):
        check_exact(milvus, "exact")
    assert not Collection(milvus, "exact_probe", 4).exists()


ROWS = st.lists(st.integers(1, 3), max_size=60).map(
    lambda scores: [(float(score), f"{number:02}") for number, score in enumerate(scores)]
)


def ordered(rows: list[Row], k: int) -> list[Row]:
    return sorted(rows, key=lambda row: (-row[0], row[1]))[:k]


class Server:
    """Returns rows by score, of equal ones those with the largest keys: the worst order there is.

    Attributes:
        answers: rows of each answer.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows, self.answers = rows, list[int]()

    def nearest(self, limit: int, below: str) -> list[Row]:
        some = [row for row in self.rows if not below or row[1] < below]
        found = sorted(some, reverse=True)[:limit]
        self.answers.append(len(found))
        return found


@given(
    ROWS,
    st.integers(1, 20),
    st.integers(1, 30),
    st.integers(20, 60),
    st.just(set[int]()) | st.sets(st.integers(0, 59)),
)
def test_ties_are_decided_by_the_key_and_rows_that_are_not_wanted_left_out(
    rows: list[Row], k: int, limit: int, most: int, out: set[int]
) -> None:
    def wanted(key: str) -> bool:
        return int(key) not in out

    some = [row for row in rows if wanted(row[1])]
    try:
        assert best_rows(Server(rows).nearest, k, limit, wanted, most) == ordered(some, k)
    except RefusedError:
        assert out and len(rows) >= most, "all rows would have been returned"


def test_few_answers_are_needed() -> None:
    server = Server([(1.0, f"{number:05}") for number in range(5000)])
    found = best_rows(server.nearest, 10, 60, lambda key: True)
    assert found == ordered(server.rows, 10)
    assert server.answers == [60, 240, 960, 3767]
    server = Server([(float(number), f"{number:05}") for number in range(5000)])
    best_rows(server.nearest, 10, 60, lambda key: True)
    assert server.answers == [60]


def test_too_few_rows_are_wanted() -> None:
    server = Server([(float(number), f"{number:02}") for number in range(60)])
    reason = r"at most 50 images, of which .* leave 2: let them leave at most 50 of all images"
    with pytest.raises(RefusedError, match=reason):
        best_rows(server.nearest, 3, 4, lambda key: int(key) % 25 == 0, 50)
    assert server.answers == [4, 16, 50]

"""Collections: names, markers, and what a server must be able to do."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.live.commit import Commit
from indexer.milvus import collection as collection_module
from indexer.milvus.collection import (
    Collection,
    Marker,
    check_exact,
    collection_name,
    switch_alias,
)
from indexer.milvus.connection import Milvus, MilvusError
from indexer.milvus.rows import KEY, marker_row
from sparta.errors import InputError
from tests.indexer.milvus.aliases import with_aliases


def test_names() -> None:
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
        made.mark(marker := Marker(Commit(3, 1, 200, 0), complete))
        assert made.marker() == marker
        assert made.images() == 0
        assert list(made.keys()) == []
    made.upsert([marker_row("{}", 10)])
    with pytest.raises(InputError, match=f"{made.name} was not written by this version: drop it"):
        made.marker()
    made.drop()
    assert not made.exists()


def test_keys_and_rows_come_in_parts(made: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{number:02x}" for number in range(20)]
    made.upsert([marker_row("", 10) | {KEY: key} for key in reversed(keys)])
    monkeypatch.setattr(collection_module, "MOST_ROWS", 7)
    assert list(made.keys()) == keys
    assert list(made.rows(keys, ["image_id"])) == keys
    made.delete([keys[3], "ff"])
    assert made.rows(keys[2:5], []).keys() == {keys[2], keys[4]}


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


def test_an_alias_is_made_once_and_switched_then(milvus: Milvus, uri: str) -> None:
    aliased, names = with_aliases(uri)
    for collection in ("first", "second"):
        assert switch_alias(aliased, "photos", collection)
        assert names == {"photos": collection}
    assert not switch_alias(milvus, "photos", "first")


def test_a_name_that_is_taken(milvus: Milvus, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: str) -> None:
        raise MilvusError("there: collection name conflict")

    monkeypatch.setattr(milvus, "call", refused)
    with pytest.raises(MilvusError, match="conflict"):
        switch_alias(milvus, "photos", "first")

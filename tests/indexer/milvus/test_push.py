"""An index is pushed to Milvus, and a collection follows it."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.maintenance.copies import restore_snapshot, set_alias, take_snapshot
from indexer.milvus.collection import MARKER, Collection, Marker, key_of
from indexer.milvus.connection import Milvus, MilvusError
from indexer.milvus.push import Pushed, Update, follow, push
from indexer.postings import Postings
from indexer.store.changes import Add, Delete, MetadataChange
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.command_line import run
from tests.indexer.live_index import commit_and_wait, write
from tests.indexer.random_postings import MakeIndex
from tests.milvus_server import milvus_server
from tests.needs import package

pymilvus = package("pymilvus", "milvus")
ALIAS_NOT_FOUND = 1600  # of Milvus's error codes


class WithAliases:
    """A client that resolves aliases itself, as a cluster does.

    Attributes:
        names: collections by alias.
    """

    def __init__(self, client: Any) -> None:
        self._client, self.names = client, dict[str, str]()

    def alter_alias(self, collection: str, alias: str, **named: Any) -> None:
        if alias not in self.names:
            raise pymilvus.MilvusException(ALIAS_NOT_FOUND, f"alias not found[alias={alias}]")
        self.names[alias] = collection

    def create_alias(self, collection: str, alias: str, **named: Any) -> None:
        self.names[alias] = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def with_aliases(uri: str) -> tuple[Milvus, dict[str, str]]:
    """A connection with aliases, and these."""
    milvus = Milvus(uri)
    client = WithAliases(milvus.client)
    milvus.client = client
    return milvus, client.names


def stored(milvus: Milvus, collection: str) -> dict[str, dict[str, Any]]:
    rows = milvus.call("query", collection, filter="id > '.'", output_fields=["*"])
    return {row["image_id"]: row for row in rows}


@pytest.fixture
def live(tmp_path: Path, postings: Postings, make_index: MakeIndex) -> Path:
    return make_index(tmp_path / "index", Postings.of(list(postings)[:20]))


def test_all_of_an_index_is_stored(milvus: Milvus, index: Path, postings: Postings) -> None:
    seen: list[tuple[str, int, int]] = []
    pushed = push(index, milvus, "stored", progress=lambda *step: seen.append(step))
    assert (pushed.images, pushed.written, pushed.deleted, pushed.former) == (300, 300, 0, [])
    assert seen == [("push", done, 300) for done in (0, 256, 300)]
    rows = stored(milvus, pushed.collection)
    assert rows.keys() == set(postings.ids)
    assert all(row["id"] == key_of(row["image_id"]) > MARKER for row in rows.values())
    again = push(index, milvus, "stored")
    assert (again.collection, again.images, again.written) == (pushed.collection, 300, 0)
    assert stored(milvus, pushed.collection) == rows


def test_a_push_continues_after_milvus_was_killed(tmp_path: Path, index: Path) -> None:
    (folder := tmp_path / "milvus").mkdir()
    with ExitStack() as server:
        uri = server.enter_context(milvus_server(folder))

        def kill(stage: str, done: int, total: int) -> None:
            if done == 256:
                server.close()  # by SIGKILL

        with pytest.raises(MilvusError, match=f"^{uri} does not answer, or not within 1 s"):
            push(index, Milvus(uri, seconds=1), "server", progress=kill)
    with milvus_server(folder, int(uri.rpartition(":")[2])):
        milvus = Milvus(uri)
        continued = push(index, milvus, "server")
        assert (continued.images, continued.written) == (300, 300 - 256)
        assert len(stored(milvus, continued.collection)) == 300


def test_what_was_written_since_is_pushed(milvus: Milvus, live: Path, postings: Postings) -> None:
    images = list(postings)
    assert push(live, milvus, "live").written == 20
    empty = replace(
        images[30],
        terms=np.empty(0, np.int32),
        impacts=np.empty(0, np.int32),
        positions=np.empty(0, np.int16),
    )
    with open_writer(live) as writer:
        writer.write([Add(images[20]), Delete(images[0].image_id), Add(empty)])
        writer.write([MetadataChange(images[1].image_id, {"it's": ["a", 2, None], "new": True})])
        commit_and_wait(writer)
    pushed = push(live, milvus, "live")
    assert (pushed.images, pushed.written, pushed.deleted) == (21, 3, 1)
    rows = stored(milvus, pushed.collection)
    assert rows.keys() == {image.image_id for image in [*images[1:21], empty]}
    assert json.loads(rows[images[1].image_id]["metadata"]) == {"it's": ["a", 2, None], "new": True}
    fields = rows[images[1].image_id]["fields"]
    assert (fields["it's"], fields["new"]) == (["a", "2"], True)
    collection = Collection(milvus, pushed.collection, 0)
    marker = collection.marker()
    assert marker is not None and marker.complete
    collection.mark(replace(marker, commit=replace(marker.commit, version=0, log=0, bytes=0)))
    assert push(live, milvus, "live").written == 21  # changes of a log that was removed
    collection.mark(Marker(replace(marker.commit, version=100), complete=True))
    assert Update(live, Snapshot.open(live), collection).changes() == (21, 0)  # one was restored
    assert stored(milvus, pushed.collection) == rows


def test_former_versions_stay_until_they_are_dropped(
    uri: str, live: Path, postings: Postings, make_index: MakeIndex, tmp_path: Path
) -> None:
    milvus, aliases = with_aliases(uri)
    first = push(live, milvus, "versions")
    assert first.switched
    assert aliases == {"versions": first.collection}
    built = make_index(tmp_path / "again", Postings.of(list(postings)[:10]))
    second = push(built, milvus, "versions")
    assert second.former == [first.collection]
    assert aliases == {"versions": second.collection}
    assert stored(milvus, first.collection).keys() == set(postings.ids[:20])
    assert push(built, milvus, "versions", drop=True).former == []
    assert not Collection(milvus, first.collection, 0).exists()
    assert stored(milvus, second.collection).keys() == set(postings.ids[:10])


def test_a_wrong_count_is_reported(
    milvus: Milvus, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Collection, "images", lambda collection: 3)
    with pytest.raises(InputError, match="has 3 images instead of 20: push it again"):
        push(live, milvus, "counted")


def test_more_than_milvus_stores(
    milvus: Milvus, tmp_path: Path, postings: Postings, make_index: MakeIndex
) -> None:
    long = replace(next(iter(postings)), metadata={"text": "a" * 70_000})
    built = make_index(tmp_path / "long", Postings.of([long]))
    with pytest.raises(InputError, match=r"00000.*: its metadata takes 70,012 characters, Milvus"):
        push(built, milvus, "long")


def test_an_index_that_is_replaced_meanwhile(
    milvus: Milvus, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(["0" * 12, "1" * 12])
    monkeypatch.setattr("indexer.milvus.push.build_version", lambda folder: next(versions))
    with pytest.raises(InputError, match="was replaced while it was opened: start again"):
        push(live, milvus, "replaced")


def test_what_is_written_follows(
    uri: str, tmp_path: Path, postings: Postings, make_index: MakeIndex
) -> None:
    images = list(postings)
    index = make_index(tmp_path / "index", Postings.of(images[:10]))
    milvus, aliases = with_aliases(uri)
    pushes: list[Pushed] = []
    lines: list[str] = []

    def steps() -> Iterator[None]:
        """What happens between two looks at the index."""
        with open_writer(index) as writer:
            writer.write([Add(images[10]), Delete(images[0].image_id)])
            commit_and_wait(writer)
        yield
        yield
        assert stored(milvus, aliases["follow"]).keys() == set(postings.ids[1:11])
        Collection(milvus, aliases["follow"], 0).drop()
        yield
        yield
        collection = Collection(milvus, aliases["follow"], 0)
        marker = collection.marker()
        assert marker is not None
        collection.mark(replace(marker, complete=False))  # a push was interrupted
        yield
        yield
        (index / "manifest.json").rename(index / "manifest")
        for _ in range(2):
            yield
            assert lines[-1] == f"{index} is not an index: it has no manifest.json"
        yield
        shutil.rmtree(index)
        make_index(index, Postings.of(images[20:25]))
        yield
        yield
        assert stored(milvus, aliases["follow"]).keys() == set(postings.ids[20:25])
        write(index, *map(Delete, postings.ids[20:25]))
        yield
        yield
        assert not stored(milvus, aliases["follow"])

    pause = steps()
    with pytest.raises(StopIteration):
        follow(index, milvus, "follow", pushes.append, lines.append, pause=lambda _: next(pause))
    assert re.fullmatch("commit [12]: 1 images written, 1 deleted", lines[0])
    assert lines[1] == f"{uri}: collection not found"
    assert lines[3] == "commit 1: 0 images written, 5 deleted"
    assert len(lines) == 4, "a problem is shown once"
    written = [(one.images, one.written) for one in pushes]
    assert written == [(10, 10), (10, 10), (10, 0), (5, 5)]
    assert pushes[0].collection == pushes[2].collection != pushes[3].collection


@pytest.mark.parametrize("restored", [True, False])
def test_a_copy_that_takes_the_place_of_the_index_is_pushed(
    uri: str, tmp_path: Path, postings: Postings, make_index: MakeIndex, restored: bool
) -> None:
    """It is restored, or the name of the index is switched to it."""
    first, second, name = make_index(tmp_path / "7", postings), tmp_path / "8", tmp_path / "prod"
    set_alias(name, first)
    milvus, aliases = with_aliases(uri)

    def describe(index: Path, *numbers: int) -> None:
        for number in numbers:  # each a commit, and as many bytes of the log
            write(index, MetadataChange(postings.ids[number], {"n": number}))

    def described() -> set[int]:
        rows = stored(milvus, aliases["copies"]).values()
        return {one["n"] for row in rows if "n" in (one := json.loads(row["metadata"]))}

    def steps() -> Iterator[None]:
        describe(first, 1)
        take_snapshot(first, second)
        describe(first, 2)
        yield
        yield
        assert described() == {1, 2}
        if restored:
            restore_snapshot(second, first)
        else:
            set_alias(name, second)
        describe(name, 3, 4)
        yield
        yield
        yield
        assert described() == {1, 3, 4}

    pause, pushes = steps(), list[Pushed]()
    with pytest.raises(StopIteration):
        follow(name, milvus, "copies", pushes.append, print, pause=lambda _: next(pause))
    assert {one.images for one in pushes} == {300}


def test_an_index_is_pushed_and_followed(
    index: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = run("export", "milvus", index, uri, "--collection", "command")
    assert pushed.startswith("command_")
    assert "300 images, 300 written, 0 deleted; the server has no aliases: use this" in pushed
    monkeypatch.setattr("indexer.milvus.push.build_version", lambda folder: "0" * 12)
    again = run("export", "milvus", index, uri, "--collection", "command")
    former = pushed.partition(":")[0]
    assert f"Former versions, which --drop-former drops: {former}" in again
    again = run("export", "milvus", index, uri, "--collection", "command", "--drop-former")
    assert "Former" not in again

    def once(*arguments: Any) -> None:
        done, notice = arguments[3:5]
        done(Pushed("photos_0", 3, 2, 1, True, []))
        notice("[as it is]")

    monkeypatch.setattr("indexer.milvus.push.follow", once)
    followed = run("export", "milvus", index, uri, "--collection", "command", "--follow")
    assert followed == "photos_0: 3 images, 2 written, 1 deleted [as it is] "
    with pytest.raises(InputError, match="give --follow or --drop-former, not both"):
        run("export", "milvus", index, uri, "--follow", "--drop-former")

"""A collection follows an index that is written to, built again, and replaced."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.care.aliases import set_alias
from indexer.care.snapshots import restore_snapshot, take_snapshot
from indexer.live.changes import Add, Delete, MetadataChange
from indexer.milvus.collection import Collection
from indexer.milvus.push import Pushed, follow
from indexer.postings import Postings
from indexer.update.writer import open_writer
from tests.indexer.live_index import commit_and_wait
from tests.indexer.milvus.aliases import with_aliases
from tests.indexer.milvus.test_push import stored


def test_what_is_written_follows(
    uri: str, tmp_path: Path, postings: Postings, make_index: Callable[[Path, Postings], Path]
) -> None:
    images = list(postings)
    index = make_index(tmp_path / "index", Postings.of(images[:10]))
    milvus, aliases = with_aliases(uri)
    pushes: list[Pushed] = []
    lines: list[str] = []

    def write() -> None:
        with open_writer(index) as writer:
            writer.write([Add(images[10]), Delete(images[0].image_id)])
            commit_and_wait(writer)

    def drop() -> None:
        assert stored(milvus, aliases["follow"]).keys() == set(postings.ids[1:11])
        Collection(milvus, aliases["follow"], 0).drop()

    def interrupt() -> None:
        collection = Collection(milvus, aliases["follow"], 0)
        marker = collection.marker()
        assert marker is not None
        collection.mark(replace(marker, complete=False))

    def damage() -> None:
        (index / "manifest.json").rename(index / "manifest")

    def still_damaged() -> None:
        assert lines[-1] == f"{index} is not an index: it has no manifest.json"

    def build() -> None:
        shutil.rmtree(index)
        make_index(index, Postings.of(images[20:25]))

    def stop() -> None:
        assert stored(milvus, aliases["follow"]).keys() == set(postings.ids[20:25])
        raise KeyboardInterrupt

    def nothing() -> None:
        assert aliases

    at_first = [write, nothing, drop, nothing, interrupt, nothing]
    steps = iter([*at_first, damage, still_damaged, still_damaged, build, nothing, stop])
    with pytest.raises(KeyboardInterrupt):
        follow(index, milvus, "follow", pushes.append, lines.append, pause=lambda _: next(steps)())
    assert re.fullmatch("commit [12]: 1 images written, 1 deleted", lines[0])
    assert lines[1] == f"{uri}: collection not found"
    assert len(lines) == 3, "a problem is shown once"
    written = [(one.images, one.written) for one in pushes]
    assert written == [(10, 10), (10, 10), (10, 0), (5, 5)]
    assert pushes[0].collection == pushes[2].collection != pushes[3].collection


@pytest.mark.parametrize("how", ["restored", "another name"])
def test_a_copy_that_takes_the_place_of_the_index_is_pushed(
    uri: str,
    tmp_path: Path,
    postings: Postings,
    make_index: Callable[[Path, Postings], Path],
    how: str,
) -> None:
    first, second, name = make_index(tmp_path / "7", postings), tmp_path / "8", tmp_path / "prod"
    set_alias(name, first)
    milvus, aliases = with_aliases(uri)

    def describe(index: Path, *numbers: int) -> None:
        for number in numbers:  # each a commit, and as many bytes of the log
            with open_writer(index) as writer:
                writer.write([MetadataChange(postings.ids[number], {"n": number})])

    def described() -> set[int]:
        rows = stored(milvus, aliases["copies"]).values()
        return {one["n"] for row in rows if "n" in (one := json.loads(row["metadata"]))}

    def write() -> None:
        describe(first, 1)
        take_snapshot(first, second)
        describe(first, 2)

    def change_over() -> None:
        assert described() == {1, 2}
        if how == "restored":
            restore_snapshot(second, first)
            describe(first, 3, 4)
        else:
            describe(second, 3, 4)
            set_alias(name, second)

    def stop() -> None:
        assert described() == {1, 3, 4}
        raise KeyboardInterrupt

    def nothing() -> None:
        assert aliases

    steps = iter([write, nothing, change_over, nothing, nothing, stop])
    with pytest.raises(KeyboardInterrupt):
        follow(name, milvus, "copies", nothing_done, print, pause=lambda _: next(steps)())


def nothing_done(pushed: Pushed) -> None:
    assert pushed.images == 300

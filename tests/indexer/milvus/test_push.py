"""An index is pushed: all of it, what is missing, what has changed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.grounding import Grounding, pack
from indexer.live.changes import Add, Delete, MetadataChange
from indexer.live.commit import log_path
from indexer.milvus.collection import Collection, Marker
from indexer.milvus.connection import Milvus, MilvusError
from indexer.milvus.push import Update, push
from indexer.milvus.rows import MARKER, key_of
from indexer.postings import Postings
from indexer.search.lucene import LuceneSearcher
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.live_index import commit_and_wait
from tests.indexer.milvus.aliases import with_aliases
from tests.milvus_server import milvus_server


def stored(milvus: Milvus, collection: str) -> dict[str, dict[str, Any]]:
    rows = milvus.call("query", collection, filter="id > '.'", output_fields=["*"])
    return {row["image_id"]: row for row in rows}


def test_all_of_an_index_is_stored(milvus: Milvus, index: Path, postings: Postings) -> None:
    seen: list[tuple[str, int, int]] = []
    pushed = push(index, milvus, "stored", progress=lambda *step: seen.append(step))
    assert (pushed.images, pushed.written, pushed.deleted, pushed.former) == (300, 300, 0, [])
    assert seen == [("push", done, 300) for done in (0, 256, 300)]
    rows = stored(milvus, pushed.collection)
    assert rows.keys() == set(postings.ids)
    for image in postings:
        row = rows[image.image_id]
        assert row["id"] == key_of(image.image_id) > MARKER
        assert row["impacts"] == dict(zip(image.terms.tolist(), image.impacts, strict=True))
        assert json.loads(row["metadata"]) == image.metadata
        packed = pack(Grounding(image.terms, image.positions, image.inputs))
        assert base64.b64decode(row["grounding"]) == packed
        assert row["fields"]["width"] == image.metadata["width"]
        assert row["fields"]["path"] == image.image_id
    again = push(index, milvus, "stored")
    assert (again.collection, again.images, again.written) == (pushed.collection, 300, 0)
    assert stored(milvus, pushed.collection) == rows


KILLED = """
import sys
from pathlib import Path
from indexer.milvus import push
push.AT_ONCE = 8
push.push(
    Path(sys.argv[1]), push.Milvus(sys.argv[2]), "killed",
    progress=lambda stage, done, total: print(done, flush=True),
)
"""


def kill_at(done: int, index: Path, uri: str) -> None:
    """Push until so many images are written, and kill the process."""
    command = [sys.executable, "-c", KILLED, str(index), uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= done:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL


def test_a_killed_push_continues(milvus: Milvus, uri: str, index: Path, postings: Postings) -> None:
    right = stored(milvus, push(index, milvus, "stored").collection)
    kill_at(120, index, uri)
    continued = push(index, milvus, "killed")
    assert 0 < continued.written <= 300 - 120
    assert continued.images == 300
    assert stored(milvus, continued.collection) == right


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


@pytest.fixture
def live(tmp_path: Path, postings: Postings, make_index: Callable[[Path, Postings], Path]) -> Path:
    return make_index(tmp_path / "index", Postings.of(list(postings)[:20]))


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
    (log_path(live, 1)).unlink()
    collection = Collection(milvus, pushed.collection, 0)
    marker = collection.marker()
    assert marker is not None and marker.complete
    collection.mark(replace(marker, commit=replace(marker.commit, version=0, bytes=0)))
    assert push(live, milvus, "live").written == 21  # what has changed is not known any more
    collection.mark(Marker(replace(marker.commit, version=100), complete=True))
    assert Update(live, LuceneSearcher(live), collection).changes() == (21, 0)  # one was restored
    assert stored(milvus, pushed.collection) == rows


def test_former_versions_stay_until_they_are_dropped(
    uri: str,
    live: Path,
    postings: Postings,
    make_index: Callable[[Path, Postings], Path],
    tmp_path: Path,
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
    milvus: Milvus,
    tmp_path: Path,
    postings: Postings,
    make_index: Callable[[Path, Postings], Path],
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

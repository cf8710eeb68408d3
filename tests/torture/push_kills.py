"""Pushes to Milvus killed before random calls: the next one continues, nothing is lost or twice.

Every second one follows an index that is written to, and may be killed in the middle of a commit.
"""

import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

from indexer.milvus import push as push_module
from indexer.milvus.collection import row_of
from indexer.milvus.connection import Milvus
from indexer.milvus.push import follow, push
from indexer.store.changes import Add, Delete
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from tests.indexer.random_postings import random_postings, shards_of, write_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.milvus_server import milvus_server
from tests.torture.kills import Processes, Report, Row, repeat

AT_ONCE = 4  # images in a call
MOST_CALLS = 10  # that write, before a kill
TOKENIZER = small_tokenizer()
BUILT = random_postings(TOKENIZER, 24)
POOL = list(random_postings(TOKENIZER, 48, seed=1))
RIGHT = {"push": None, "continued": ("all images once",)}


def kill_pushes(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Kill so many pushes; returns what happened, and what should not have happened."""
    (work / "milvus").mkdir()
    write_postings(work / "index", shards_of(BUILT, 12), TOKENIZER)
    with milvus_server(work / "milvus") as uri, Processes("tests.torture.push_kills") as processes:
        return repeat(count, seed, report, partial(_kill, processes, work / "index", uri), RIGHT)


def _kill(processes: Processes, index: Path, uri: str, rng: random.Random, number: int) -> Row:
    """Kill a push, let another one continue, and compare the collection with the index."""
    _write(index, rng)
    name, following = f"kills_{number // 2}", bool(number % 2)
    calls = rng.randrange(1, MOST_CALLS + 1)
    child = processes.start(_push_until, index, uri, name, calls, following, rng.random())
    child.join()
    ended = "killed" if child.exitcode == -signal.SIGKILL else f"ended with {child.exitcode}"
    milvus = Milvus(uri)
    done = push(index, milvus, name)
    return {
        "push": f"{'following' if following else 'once'}, {ended}",
        "calls": calls,
        "written": done.written,
        "continued": _compared(index, milvus, done.collection),
    }


def _compared(index: Path, milvus: Milvus, collection: str) -> str:
    images = Snapshot.open(index)
    kinds, live = images.field_index().kinds, images.live_documents().tolist()
    right = [row_of(one, kinds, images.vocabulary) for one in images.images(live)]
    found = milvus.call("query", collection, filter="id > '.'", output_fields=["*"])
    if len(found) != len(right):
        return f"{len(found)} rows for {len(right)} images"
    same = {row["id"]: row for row in found} == {row["id"]: row for row in right}
    return "all images once" if same else "other rows"


def _write(index: Path, rng: random.Random) -> None:
    """Add or replace some images, and delete one."""
    with open_writer(index) as writer:
        writer.write([Add(image) for image in rng.sample(POOL, 6)])
        writer.write([Delete(rng.choice(POOL).image_id)])
        writer.commit()


class _Dying(Milvus):
    """A connection whose process is killed before one of the calls that write."""

    def __init__(self, uri: str, calls: int) -> None:
        super().__init__(uri)
        self._left = calls

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        if method in ("upsert", "delete"):
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().call(method, *arguments, **named)


def _push_until(index: Path, uri: str, name: str, calls: int, following: bool, seed: float) -> None:
    push_module.AT_ONCE = AT_ONCE
    milvus, rng = _Dying(uri, calls), random.Random(seed)
    if following:
        follow(index, milvus, name, _quiet, _quiet, pause=lambda _: _write(index, rng))
    else:
        push(index, milvus, name)


def _quiet(said: object) -> None:
    """Reports nothing."""

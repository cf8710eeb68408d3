"""Keeps a collection in step with an index that is written to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from indexer.milvus.connection import Milvus
from indexer.milvus.push import Pushed, Update, build_version, collection_of, push
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.progress import Notice, Progress, no_progress

EVERY = 1.0  # seconds from one look to the next


def follow(
    folder: Path,
    milvus: Milvus,
    name: str,
    done: Callable[[Pushed], None],
    notice: Notice,
    progress: Progress = no_progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Push an index, and what is written to it, until interrupted.

    An index that is built again is pushed as a whole, into a collection of its version; until that
    is complete the alias names the former one, which stays as it is. What prevents a round, such
    as a server that does not answer, is shown once, and tried again.

    Args:
        folder: the index.
        milvus: the server.
        name: of the alias.
        done: gets what each push of all did, such as the first one.
        notice: gets one line for every round that wrote something, and for every problem.
        progress: as for `push`.
        pause: waits for some seconds.
    """
    problem = ""
    while True:
        try:
            done(push(folder, milvus, name, progress=progress))
            problem = ""
            _follow_version(folder, milvus, name, notice, pause)
        except (InputError, OSError) as error:
            if str(error) != problem:
                notice(str(error))
            problem = str(error)
        pause(EVERY)


def _follow_version(
    folder: Path, milvus: Milvus, name: str, notice: Notice, pause: Callable[[float], None]
) -> None:
    """Push what is written to an index until it is built again."""
    index = folder.resolve()
    version = build_version(index)
    searcher = LuceneSearcher(index)
    try:
        collection = collection_of(milvus, name, version, searcher)
        while folder.resolve() == index and build_version(index) == version:
            marker = collection.marker()
            if marker is None or not marker.complete:
                return  # somebody dropped it, or pushes it too
            if marker.commit != searcher.commit:
                written, deleted = Update(index, searcher, collection).changes()
                state = f"commit {searcher.commit.version:,}"
                notice(f"{state}: {written:,} images written, {deleted:,} deleted")
            pause(EVERY)
            if newer := searcher.refreshed():
                searcher.close()
                searcher = newer
    finally:
        searcher.close()

"""Searches the images of an index in Milvus, beside the index."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np

from indexer.answer import RefusedError, UnavailableError
from indexer.engines.columns import OF_SEGMENTS, ColumnsEngine, Mask
from indexer.engines.open import snapshot_of
from indexer.milvus.collection import KEY, MOST_ROWS, Collection, collection_name, key_of
from indexer.milvus.connection import Milvus
from indexer.milvus.push import build_version
from indexer.search.engine import Plan, hit_order
from indexer.search.searcher import Searcher
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError

SPARE = 50  # rows beyond the k-th, so that ties with it seldom need another call
SECONDS = 5.0  # that one call may take
PAUSE = 1.0  # seconds after a failure in which nobody else tries to connect
GROWTH = 4  # of the number of rows from one call to the next
Row = tuple[float, str]  # score, key


def open_milvus(folder: Path, sparse: Searcher, uri: str, name: str) -> Searcher:
    """The searcher of an index in a Milvus, to which the first query connects.

    `sparse` is a searcher of the index; `name` is the one that the index was pushed with.
    """
    remote = Remote(folder, uri, name, len(sparse.language.tokenizer.vocabulary))
    return Searcher(MilvusEngine(remote, snapshot_of(sparse)), sparse.language)


class Remote:
    """The collection that an index was pushed to, connected to by the first call.

    A call that fails says why; a later one connects again. Safe from any thread.
    """

    def __init__(self, folder: Path, uri: str, name: str, terms: int) -> None:
        self._folder, self._uri, self._name, self._terms = folder, uri, name, terms
        self._collection: Collection | None = None
        self._opening = Lock()
        self._failed = -PAUSE, ""  # when it could not be connected to, and why

    @contextmanager
    def opened(self) -> Iterator[Collection]:
        """The collection.

        Raises UnavailableError if the server does not answer, does not rank by exact inner
        products, or does not have the whole collection; or a call fails while it is used.
        """
        try:
            yield self._collection or self._connected()
        except RefusedError:
            raise
        except InputError as error:
            self._collection = None
            raise UnavailableError(str(error)) from error

    def _connected(self) -> Collection:
        """Connect, once for all queries that wait for it."""
        with self._opening:
            failed, reason = self._failed
            if time.monotonic() - failed < PAUSE:
                raise InputError(reason)
            try:
                self._collection = self._collection or self._open()
            except InputError as error:
                self._failed = time.monotonic(), str(error)
                raise
            return self._collection

    def _open(self) -> Collection:
        milvus = Milvus(self._uri, SECONDS)
        name = collection_name(self._name, build_version(self._folder))
        collection = Collection(milvus, name, self._terms)
        marker = collection.marker() if collection.exists() else None
        if marker is None or not marker.complete:
            milvus.close()
            raise InputError(
                f"{self._uri} does not have all of the collection {name}: run sparta export "
                f"milvus {self._folder} {self._uri} --collection {self._name}"
            )
        collection.check_scores()
        return collection


class MilvusEngine(ColumnsEngine):
    """Milvus finds and scores images; all else is answered by the segments.

    Images that either of the two lacks are not found. Safe from any thread.
    """

    can = OF_SEGMENTS
    name = "milvus"

    def __init__(self, remote: Remote, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._remote = remote

    def _best(self, plan: Plan, k: int, allowed: Mask | None) -> tuple[list[int], list[float]]:
        """The k best documents and their scores, in the order of hits.

        Of documents that are not all allowed, either as many rows are asked for as k allowed ones
        are likely to be among, or the server gets the keys of those allowed, whichever are fewer.
        Raises UnavailableError if the server does not answer; RefusedError if it cannot return as
        many rows as would be needed.
        """
        if not plan.terms:
            return [], []
        if allowed is None:
            return self._nearest(plan, k, k + SPARE)
        count = int(np.count_nonzero(allowed))
        if not count:
            return [], []
        likely = (k + SPARE) * len(allowed) // count
        if likely < count or count > MOST_ROWS:
            try:
                return self._nearest(plan, k, likely, allowed)
            except RefusedError:
                if count > MOST_ROWS:
                    raise
        stored = self.snapshot.stored_all(np.flatnonzero(allowed).tolist())
        keys = ", ".join(f'"{key_of(one.image_id)}"' for one in stored)
        return self._nearest(plan, k, k + SPARE, allowed, f"{KEY} in [{keys}]")

    def _nearest(
        self, plan: Plan, k: int, limit: int, allowed: Mask | None = None, among: str = ""
    ) -> tuple[list[int], list[float]]:
        query = {term: float(count) for term, count in plan.terms.items()}
        documents: dict[str, int] = {}

        def wanted(key: str) -> bool:
            document = self.snapshot.document(bytes.fromhex(key).decode())
            if document is None or (allowed is not None and not allowed[document]):
                return False
            documents[key] = document
            return True

        with self._remote.opened() as collection:

            def nearest(limit: int, below: str) -> list[Row]:
                parts = [among, f'{KEY} < "{below}"' if below else ""]
                return collection.nearest(query, limit, " and ".join(filter(None, parts)))

            found = best_rows(nearest, k, limit, wanted)
        return [documents[key] for _, key in found], [score for score, _ in found]

    def over(self, snapshot: Snapshot) -> MilvusEngine:
        """The same collection beside another commit."""
        return MilvusEngine(self._remote, snapshot)


def best_rows(
    nearest: Callable[[int, str], list[Row]],
    k: int,
    limit: int,
    wanted: Callable[[str], bool],
    most: int = MOST_ROWS,
) -> list[Row]:
    """The k best rows that are wanted, in the order of hits: keys rise as the image ids do.

    Where the last row of an answer has the score of the k-th best, others with this score may be
    missing, of which those with smaller keys than the k-th matter: these are asked for, until no
    answer ends so. Where too few rows are wanted, more are asked for, `limit` at first and `most`
    at most.

    `nearest` returns the rows with the largest scores, descending, or any of those with the last
    score: how many at most, and the key below which theirs are, "" for any. Raises RefusedError if
    the rows that the server returns are not enough.
    """
    below, best = "", list[Row]()
    limit = min(limit, most)
    while True:
        found = nearest(limit, below)
        rows = {*best, *(row for row in found if wanted(row[1]))}
        best = sorted(rows, key=lambda row: hit_order(row[1], row[0]))[:k]
        if len(found) < limit or (len(best) == k and best[-1][0] > found[-1][0]):
            return best
        # All rows with a larger score than the k-th are known, and of those with its score all
        # that the next answer does not have are behind it.
        nearer = len(best) == k and best[-1][0] == found[-1][0] and best[-1][1] != below
        if not nearer and limit == most:
            raise RefusedError(
                "backend",
                f"Milvus returns at most {most:,} images, of which the filter and the signs of the "
                f"words leave {len(best):,}: let them leave at most {most:,} of all images, or "
                "search sparta",
            )
        below = best[-1][1] if nearer else below
        limit = min(limit * GROWTH, most)

"""Finds the documents of an index in Milvus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.milvus.collection import MOST_ROWS, Collection, collection_name
from indexer.milvus.connection import Milvus
from indexer.milvus.push import build_version
from indexer.milvus.rows import IMPACTS, KEY, key_of
from indexer.search.api import Allowed, UnanswerableError, UnavailableError, UnknownImageError
from indexer.search.lucene import Finder
from sparta.errors import InputError

SPARE = 50  # rows beyond the k-th, so that ties with it seldom need another call
SECONDS = 5.0  # that one call may take
PAUSE = 1.0  # seconds after a failure in which nobody else tries to connect
GROWTH = 4  # of the number of rows from one call to the next
Row = tuple[float, str]  # score, key


class Remote:
    """The collection that an index was pushed to, connected to by the first call.

    A call that fails says why; a later one connects again. Safe from any thread.

    Args:
        folder: the index.
        uri: of the server.
        name: that the index was pushed with.
        terms: size of the vocabulary.
    """

    def __init__(self, folder: Path, uri: str, name: str, terms: int) -> None:
        self._folder, self._uri, self._name, self._terms = folder, uri, name, terms
        self._collection: Collection | None = None
        self._opening = Lock()
        self._failed = -PAUSE, ""  # when it could not be connected to, and why

    @contextmanager
    def opened(self) -> Iterator[Collection]:
        """The collection.

        Raises:
            UnavailableError: if the server does not answer, does not rank by exact inner products,
                or does not have the whole collection; or a call fails while it is used.
        """
        try:
            yield self._collection or self._connected()
        except UnanswerableError:
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
                f"{self._uri} does not have all of the collection {name}: run sparta push "
                f"{self._folder} {self._uri} --collection {self._name}"
            )
        collection.check_scores()
        return collection


class MilvusFinder:
    """Scores of images are Milvus's; all that is about terms is answered by the index's engine.

    Args:
        remote: the collection.
        engine: of the index, whose document numbers are used.
        term_ids: the vocabulary.
    """

    def __init__(self, remote: Remote, engine: Finder, term_ids: Mapping[str, int]) -> None:
        self._remote, self._term_ids = remote, term_ids
        self.stored = engine.stored
        self.document = engine.document
        self.term_impacts = engine.term_impacts
        self.largest_impact = engine.largest_impact
        self.document_frequencies = engine.document_frequencies

    def top(self, terms: str, k: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The k best documents and their scores; see `SnapshotFinder.top`.

        Of documents that are not all allowed, either as many rows are asked for as k allowed ones
        are likely to be among, or the server gets the keys of those allowed, whichever are fewer.

        Raises:
            UnavailableError: if the server does not answer.
            UnanswerableError: if it cannot return as many rows as would be needed.
        """
        query = {self._term_ids[term]: float(n) for term, n in Counter(terms.split()).items()}
        if not query:
            return []
        if allowed is None:
            return self._best(query, k, k + SPARE)
        count = int(np.count_nonzero(allowed))
        if not count:
            return []
        likely = (k + SPARE) * len(allowed) // count
        if likely < count or count > MOST_ROWS:
            try:
                return self._best(query, k, likely, allowed)
            except UnanswerableError:
                if count > MOST_ROWS:
                    raise
        return self._best(query, k, k + SPARE, allowed, self._among(np.flatnonzero(allowed)))

    def _best(
        self,
        query: dict[int, float],
        k: int,
        limit: int,
        allowed: Allowed | None = None,
        among: str = "",
    ) -> list[tuple[int, float]]:
        documents: dict[str, int] = {}

        def wanted(key: str) -> bool:
            document = self.document(bytes.fromhex(key).decode())
            if document is None or (allowed is not None and not allowed[document]):
                return False
            documents[key] = document
            return True

        with self._remote.opened() as collection:

            def nearest(limit: int, below: str) -> list[tuple[float, str]]:
                parts = [among, f'{KEY} < "{below}"' if below else ""]
                return collection.nearest(query, limit, " and ".join(filter(None, parts)))

            found = best_rows(nearest, k, limit, wanted)
        return [(documents[key], score) for score, key in found]

    def _among(self, documents: NDArray[np.int64]) -> str:
        """An expression that some documents alone fulfil."""
        keys = ", ".join(f'"{key_of(self.stored(one).image_id)}"' for one in documents.tolist())
        return f"{KEY} in [{keys}]"

    def impacts(self, documents: Sequence[int], terms: Sequence[str]) -> NDArray[np.int64]:
        """The impacts of some documents; see `SnapshotFinder.impacts`.

        Raises:
            UnavailableError: if the server does not answer, or lacks one of the images.
        """
        rows = self.rows([self.stored(one).image_id for one in documents], IMPACTS)
        return self.impacts_of(rows, terms)

    def impacts_of(
        self, rows: Sequence[Mapping[str, Any]], terms: Sequence[str]
    ) -> NDArray[np.int64]:
        """The impacts that some rows have for terms, [rows, terms]."""
        numbers = [self._term_ids[term] for term in terms]
        impacts = [[row[IMPACTS].get(number, 0) for number in numbers] for row in rows]
        return np.array(impacts, np.int64).reshape(len(rows), len(numbers))

    def rows(self, image_ids: Sequence[str], *names: str) -> list[dict[str, Any]]:
        """Some fields of images.

        Raises:
            UnavailableError: if the server does not answer, or lacks one of the images.
            UnknownImageError: if the index lacks one of the images.
        """
        for image_id in image_ids:
            if self.document(image_id) is None:
                raise UnknownImageError(image_id)
        keys = [key_of(image_id) for image_id in image_ids]
        with self._remote.opened() as collection:
            rows = collection.rows(list(dict.fromkeys(keys)), names)
            if lacking := next((key for key in keys if key not in rows), None):
                image_id = bytes.fromhex(lacking).decode()
                raise InputError(f"{collection.name} lacks {image_id}: push the index again")
        return [rows[key] for key in keys]


def best_rows(
    nearest: Callable[[int, str], list[Row]],
    k: int,
    limit: int,
    wanted: Callable[[str], bool],
    most: int = MOST_ROWS,
) -> list[Row]:
    """The k best rows that are wanted, by score and then by key.

    Where the last row of an answer has the score of the k-th best, others with this score may be
    missing, of which those with smaller keys than the k-th matter: these are asked for, until no
    answer ends so. Where too few rows are wanted, more are asked for.

    Args:
        nearest: the rows with the largest scores, descending: how many at most, and the key below
            which theirs are, "" for any. Of rows with the last score it may return any.
        k: rows at most.
        limit: rows of the first answer.
        wanted: whether a row with a key counts.
        most: rows that an answer can have.

    Raises:
        UnanswerableError: if the rows that the server returns are not enough.
    """
    below, best = "", list[Row]()
    limit = min(limit, most)
    while True:
        found = nearest(limit, below)
        best = sorted({*best, *(row for row in found if wanted(row[1]))}, key=_order)[:k]
        if len(found) < limit or (len(best) == k and best[-1][0] > found[-1][0]):
            return best
        # All rows with a larger score than the k-th are known, and of those with its score all
        # that the next answer does not have are behind it.
        nearer = len(best) == k and best[-1][0] == found[-1][0] and best[-1][1] != below
        if not nearer and limit == most:
            raise UnanswerableError(
                f"Milvus returns at most {most:,} images, of which the filter and the signs of the "
                f"words leave {len(best):,}: let them leave at most {most:,} of all images, or "
                "search sparta"
            )
        below = best[-1][1] if nearer else below
        limit = min(limit * GROWTH, most)


def _order(row: Row) -> tuple[float, str]:
    return -row[0], row[1]

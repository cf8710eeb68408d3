"""One collection in Milvus that holds the images of an index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from indexer.milvus.connection import Milvus, MilvusError
from indexer.milvus.rows import (
    IMPACTS,
    KEY,
    MARKER,
    METADATA,
    SEARCH,
    marker_row,
    schema,
)
from indexer.store.commit import Commit, SegmentList
from sparta.errors import InputError

MOST_ROWS = 16_384  # of one answer, a limit of the server
SUMMED = 100  # impacts, of at most 16 bits: the sum is exact as a 32-bit float
_NAME = re.compile(r"[A-Za-z_]\w{0,200}", re.ASCII)


def collection_name(name: str, version: str) -> str:
    """The collection of one version of an index, of those with a name.

    Raises:
        InputError: if Milvus does not take the name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"--collection {name!r}: use letters, digits and _, and no digit first")
    return f"{name}_{version}"


@dataclass(frozen=True)
class Marker:
    """What a collection holds, stored in a row of it.

    Attributes:
        commit: of the index. The collection has what it had at this commit, and perhaps some of
            what came later.
        complete: whether all of it was written.
    """

    commit: Commit
    complete: bool

    @classmethod
    def of(cls, commit: Commit, complete: bool) -> Marker:
        """The marker of a commit, whose segments are of no use elsewhere."""
        return cls(replace(commit, segments=SegmentList()), complete)


class Collection:
    """The collection of one version of an index.

    Args:
        milvus: the server.
        name: of the collection.
        terms: size of the vocabulary.
    """

    def __init__(self, milvus: Milvus, name: str, terms: int) -> None:
        self.milvus, self.name, self._terms = milvus, name, terms

    def exists(self) -> bool:
        """Whether the server has it."""
        return bool(self.milvus.call("has_collection", self.name))

    def create(self) -> None:
        """Make it, empty, and searchable as soon as it has rows."""
        fields, index = schema(self.milvus.client)
        self.milvus.call(
            "create_collection",
            self.name,
            schema=fields,
            index_params=index,
            consistency_level="Strong",  # reads find all that was acknowledged
        )

    def drop(self) -> None:
        """Delete it with all its rows."""
        self.milvus.call("drop_collection", self.name)

    def marker(self) -> Marker | None:
        """The marker, None if there is none yet.

        Raises:
            InputError: if it is of another version of the format.
        """
        rows = self._query(f'{KEY} == "{MARKER}"', [METADATA], 1)
        if not rows:
            return None
        try:
            values = json.loads(rows[0][METADATA])
            return Marker.of(Commit(**values["commit"]), values["complete"])
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{self.milvus.uri}: the collection {self.name} was not written by this version: "
                "drop it, or give another --collection"
            ) from error

    def mark(self, marker: Marker) -> None:
        """Replace the marker."""
        self.upsert([marker_row(json.dumps(asdict(marker)), self._terms)])

    def upsert(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows in the place of those with their keys."""
        self.milvus.call("upsert", self.name, list(rows))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the rows with some keys, as far as there are any."""
        self.milvus.call("delete", self.name, ids=list(keys))

    def keys(self) -> Iterator[str]:
        """The keys of all images, rising."""
        last = MARKER
        while rows := self._query(f'{KEY} > "{last}"', [KEY], MOST_ROWS):
            found = sorted(row[KEY] for row in rows)
            yield from found
            last = found[-1]

    def images(self) -> int:
        """How many images there are."""
        rows = self.milvus.call("query", self.name, filter="", output_fields=["count(*)"])
        return int(rows[0]["count(*)"]) - (self.marker() is not None)

    def _query(self, wanted: str, names: Sequence[str], limit: int) -> list[dict[str, Any]]:
        return list(
            self.milvus.call(
                "query", self.name, filter=wanted, output_fields=list(names), limit=limit
            )
        )

    def nearest(
        self, query: dict[int, float], limit: int, wanted: str = ""
    ) -> list[tuple[float, str]]:
        """Rows with the largest inner products above 0: those, and their keys.

        Descending by the inner product; rows with the same one in any order, and which of them
        are among the last is left to the server.

        Args:
            query: weights by dimension.
            limit: rows at most.
            wanted: an expression that the rows fulfil; "" for all.
        """
        found = self.milvus.call(
            "search",
            self.name,
            [query],
            anns_field=IMPACTS,
            limit=limit,
            filter=wanted,
            search_params=SEARCH,
        )[0]
        rows = [(row["distance"], row[KEY]) for row in found]
        return [row for row in rows if row[0] > 0]

    def check_scores(self) -> None:
        """Refuse a server that ranks otherwise than by inner products, by the score of one image.

        Raises:
            InputError: if it is such a server.
        """
        for row in self._query(f'{KEY} > "{MARKER}"', [KEY, IMPACTS], 1):
            impacts = dict(list(row[IMPACTS].items())[:SUMMED])
            found = self.nearest(dict.fromkeys(impacts, 1.0), 1, f'{KEY} == "{row[KEY]}"')
            if found != [(sum(impacts.values()), row[KEY])]:
                raise _inexact(self.milvus)


def check_exact(milvus: Milvus, name: str) -> None:
    """Refuse a server that does not rank sparse vectors by their exact inner products.

    Makes a collection of three rows, searches it, and drops it.

    Raises:
        InputError: if it is such a server.
        MilvusError: if a call fails.
    """
    probe = Collection(milvus, f"{name}_probe", 4)
    vectors: list[dict[int, float]] = [{0: 65535.0, 1: 1.0}, {0: 1.0, 1: 2.0, 2: 3.0}, {2: 255.0}]
    if probe.exists():
        probe.drop()
    probe.create()
    try:
        rows = [
            marker_row("", 4) | {KEY: str(number), IMPACTS: vector}
            for number, vector in enumerate(vectors)
        ]
        probe.upsert(rows)
        found = probe.nearest({0: 255.0, 1: 7.0, 2: 1.0}, 10)
    finally:
        probe.drop()
    right = [(65535 * 255 + 7.0, "0"), (255 + 14 + 3.0, "1"), (255.0, "2")]
    if found != right:
        raise _inexact(milvus)


def _inexact(milvus: Milvus) -> InputError:
    return InputError(
        f"{milvus.uri} does not rank sparse vectors by their exact inner products, as Milvus 2.5 "
        "and later and milvus-lite 2.5.1 do: use one of these"
    )


def switch_alias(milvus: Milvus, alias: str, collection: str) -> bool:
    """Let an alias name a collection, from one request to the next.

    Returns:
        False if the server has no aliases, as milvus-lite.

    Raises:
        MilvusError: if a collection has this name.
    """
    try:
        milvus.call("alter_alias", collection, alias)
    except MilvusError as error:
        if error.unknown:
            return False
        # There was none: servers differ in how they say so.
        milvus.call("create_alias", collection, alias)
    return True

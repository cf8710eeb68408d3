"""One collection in Milvus that holds the images of an index: its schema, rows and marker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from indexer.fields.kinds import CONVERSIONS, Kind, with_derived
from indexer.milvus.connection import Milvus, MilvusError
from indexer.postings import ImagePostings
from indexer.state import VERSION_DIGITS
from indexer.store.commit import Commit, SegmentList
from sparta.errors import InputError
from sparta.extras import require
from sparta.json_values import Json, JsonMapping

KEY, IMAGE_ID, IMPACTS = "id", "image_id", "impacts"
FIELDS, METADATA = "fields", "metadata"
LONGEST = 65_535  # bytes of a text in Milvus
MARKER = "."  # key of the row that says what the collection has; that of no image
INDEX = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
# The best documents at a time, with nothing left out: both ratios are 0 by default, too.
INDEX_PARAMETERS = {"inverted_index_algo": "DAAT_MAXSCORE", "drop_ratio_build": 0.0}
SEARCH = {"metric_type": "IP", "params": {"drop_ratio_search": 0.0}}


def key_of(image_id: str) -> str:
    """The primary key of an image: its id in UTF-8, in hexadecimal digits.

    Keys are in the order of the ids, and no character of an id needs escaping in a filter.
    """
    return image_id.encode().hex()


def row_of(image: ImagePostings, kinds: Mapping[str, Kind], terms: int) -> Json:
    """One image as a row, with typed fields.

    `terms` is the size of the vocabulary, a number that no term has; it stands for no terms at all,
    which a vector in Milvus cannot have. Raises InputError if it has more than Milvus can store.
    """
    impacts = dict(zip(image.terms.tolist(), image.impacts.astype(float).tolist(), strict=True))
    row = {
        KEY: key_of(image.image_id),
        IMAGE_ID: image.image_id,
        METADATA: json.dumps(image.metadata),
        FIELDS: typed(image.image_id, image.metadata, kinds),
        IMPACTS: impacts or {terms: 1.0},
    }
    for name in (KEY, METADATA):
        if len(row[name]) > LONGEST:
            what = "id" if name == KEY else name
            raise InputError(
                f"{image.image_id[:80]}: its {what} takes {len(row[name]):,} characters, Milvus "
                f"stores {LONGEST:,}"
            )
    return row


def marker_row(text: str, terms: int) -> Json:
    """The row of the marker, which no search finds."""
    nothing = {IMAGE_ID: "", FIELDS: {}}
    return {KEY: MARKER, METADATA: text, IMPACTS: {terms: 1.0}, **nothing}


def typed(image_id: str, metadata: JsonMapping, kinds: Mapping[str, Kind]) -> Json:
    """The fields of an image with values of their kinds; a list where the metadata has one.

    Keywords are texts, numbers and booleans as in JSON, dates microseconds since 1970, points
    [latitude, longitude]. Values that a field's kind cannot have are left out.
    """
    found: Json = {}
    for name, value in with_derived(image_id, metadata).items():
        if name not in kinds:
            continue
        convert = CONVERSIONS[kinds[name]]
        if isinstance(value, list):
            values = [one for one in map(convert, value) if one is not None]
            found |= {name: values} if values else {}
        elif (one := convert(value)) is not None:
            found[name] = one
    return found


MOST_ROWS = 16_384  # of one answer, a limit of the server
SUMMED = 100  # impacts, of at most 16 bits: the sum is exact as a 32-bit float
_NAME = re.compile(r"[A-Za-z_]\w{0,200}", re.ASCII)


def alias_of(name: str) -> str:
    """The alias NAME, from itself or from the name NAME_VERSION of a collection."""
    return re.sub(rf"_[0-9a-f]{{{VERSION_DIGITS}}}\Z", "", name)


def collection_name(name: str, version: str) -> str:
    """The collection of one version of an index; raises InputError for a wrong name."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--collection {name!r}: use letters, digits and _, and no digit first")
    return f"{alias_of(name)}_{version}"


@dataclass(frozen=True)
class Marker:
    """What a collection holds, stored in a row of it."""

    # Of the index. The collection has what it had at this commit, and perhaps some of what came
    # later.
    commit: Commit
    complete: bool  # whether all of it was written

    @classmethod
    def of(cls, commit: Commit, complete: bool) -> Marker:
        """The marker of a commit, whose segments are of no use elsewhere."""
        return cls(replace(commit, segments=SegmentList()), complete)


class Collection:
    """The collection of one version of an index, with a vocabulary of so many terms."""

    def __init__(self, milvus: Milvus, name: str, terms: int) -> None:
        self.milvus, self.name, self._terms = milvus, name, terms

    def exists(self) -> bool:
        """Whether the server has it."""
        return bool(self.milvus.call("has_collection", self.name))

    def create(self) -> None:
        """Make it, empty, and searchable as soon as it has rows."""
        client, kinds = self.milvus.client, require("pymilvus").DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(KEY, kinds.VARCHAR, max_length=LONGEST, is_primary=True)
        for name in (IMAGE_ID, METADATA):
            schema.add_field(name, kinds.VARCHAR, max_length=LONGEST)
        schema.add_field(FIELDS, kinds.JSON)
        schema.add_field(IMPACTS, kinds.SPARSE_FLOAT_VECTOR)
        index = client.prepare_index_params()
        index.add_index(IMPACTS, params=INDEX_PARAMETERS, **INDEX)
        options = {"schema": schema, "index_params": index}
        # Strong: reads find all that was acknowledged.
        self.milvus.call("create_collection", self.name, consistency_level="Strong", **options)

    def drop(self) -> None:
        """Delete it with all its rows."""
        self.milvus.call("drop_collection", self.name)

    def marker(self) -> Marker | None:
        """The marker, None without one; raises InputError if it has another format."""
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

    def upsert(self, rows: Sequence[Json]) -> None:
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

    def _query(self, wanted: str, names: Sequence[str], limit: int) -> list[Json]:
        options = {"output_fields": list(names), "limit": limit}
        return list(self.milvus.call("query", self.name, filter=wanted, **options))

    def nearest(
        self, query: dict[int, float], limit: int, wanted: str = ""
    ) -> list[tuple[float, str]]:
        """At most so many rows with the largest inner products above 0: those, and their keys.

        Descending by the inner product; rows with the same one in any order, and which of them are
        among the last is left to the server. `wanted` is an expression that the rows fulfil.
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
        """Raise InputError if the server ranks one image otherwise than by inner products."""
        for row in self._query(f'{KEY} > "{MARKER}"', [KEY, IMPACTS], 1):
            impacts = dict(list(row[IMPACTS].items())[:SUMMED])
            found = self.nearest(dict.fromkeys(impacts, 1.0), 1, f'{KEY} == "{row[KEY]}"')
            if found != [(sum(impacts.values()), row[KEY])]:
                raise _inexact(self.milvus)


def check_exact(milvus: Milvus, name: str) -> None:
    """Refuse a server that does not rank sparse vectors by their exact inner products.

    Makes a collection of three rows, searches it, and drops it. Raises InputError if it is such a
    server, MilvusError if a call fails.
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

    Returns False if the server has no aliases, as milvus-lite. Raises MilvusError if a collection
    has this name.
    """
    try:
        milvus.call("alter_alias", collection, alias)
    except MilvusError as error:
        if error.unknown:
            return False
        # There was none: servers differ in how they say so.
        milvus.call("create_alias", collection, alias)
    return True

"""`images.arrow` of a segment: ids, metadata, content ids and groundings by document number.

Behind it, the images of an index while it is written to, and what an image must be like.

A content id names what an image was encoded from; a replaced image gets another one. What was
computed of an image is stored by its content id, so that it is never taken for another content
under the same image id. Images of one content id have the same vectors.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pyarrow as pa

from indexer.fields.columns import FieldWriter, stored_kinds
from indexer.fields.kinds import Kind
from indexer.manifest import REMEDY
from indexer.postings import ImagePostings
from indexer.store.changes import Add, Change, MetadataChange, metadata_of
from indexer.store.commit import SegmentList, segment_folder
from sparta.errors import InputError, first_line
from sparta.json_values import Json, JsonMapping

if TYPE_CHECKING:
    from sparta.features.record import ImageFeatures

BUILT = "="  # before the id of an image that is as the index was built
DIGITS = 32  # of every other content id, hexadecimal

IMAGES = "images.arrow"
REMEMBERED = 50_000  # images whose id and metadata are kept, some 400 bytes each
BATCH = 4096  # images of a batch of the file, some 2 KB each
CONTENT_ID = pa.field("content_id", pa.large_string())  # null for images as they were built
SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("metadata", pa.large_string()),
        CONTENT_ID,
        ("grounding", pa.large_binary()),  # see `indexer.grounding.pack_all`
    ]
)


def built_content_id(image_id: str) -> str:
    """The content id of an image that is as the index was built."""
    return BUILT + image_id


def new_content_id() -> str:
    """The content id of an image of which nothing but its terms is known."""
    return uuid4().hex


def content_id_of(image: ImageFeatures) -> str:
    """The content id of an image that is encoded from features: a hash of them."""
    digest = blake2b(digest_size=DIGITS // 2)
    size = [image.width, image.height, *image.features.shape]
    for part in (size, image.labels, image.attributes):
        digest.update(repr(list(part)).encode())
    for values in (image.features, image.boxes):
        digest.update(values.tobytes())
    return digest.hexdigest()


class Stored(NamedTuple):
    """The id and metadata of an image."""

    image_id: str
    metadata: Json


class UnknownImageError(KeyError):
    """The index has no image of this id."""


class ImageTable:
    """What an `ImageWriter` wrote, open for reading; raises InputError if it is damaged."""

    def __init__(self, folder: Path) -> None:
        try:
            table = pa.ipc.open_file(pa.memory_map(str(folder / IMAGES))).read_all()
            table.validate(full=True)
            if not table.schema.equals(SCHEMA):
                raise ValueError("it has other columns")
            if any(table.column(name).null_count for name in ("id", "metadata", "grounding")):
                raise ValueError("an image has no id, metadata or grounding")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{folder / IMAGES} is damaged ({first_line(error)}): {REMEDY}"
            ) from error
        self.rows = table  # of the mapped file
        self._ids = StringColumn(table.column("id"))
        self._documents: dict[str, int] = {}  # of ids that were read: those of hits
        read = partial(_read, self._ids, StringColumn(table.column("metadata")), self._documents)
        self.stored = lru_cache(REMEMBERED)(read)  # not of a method: that would keep the table

    def __len__(self) -> int:
        return len(self._ids)

    def id(self, document: int) -> str:
        """The id of an image."""
        return self._ids[document]

    def content_id(self, document: int) -> str:
        """What an image was encoded from."""
        return self.rows.column("content_id")[document].as_py() or built_content_id(
            self.id(document)
        )

    def content_ids(self) -> pa.ChunkedArray:
        """[N] what each image was encoded from."""
        import pyarrow.compute as pc  # which a search does not need

        built = pc.binary_join_element_wise(
            *(
                pa.scalar(BUILT, CONTENT_ID.type),
                self.rows.column("id"),
                pa.scalar("", CONTENT_ID.type),
            )
        )
        return pc.coalesce(self.rows.column("content_id"), built)

    def before(self, image_id: str) -> int:
        """How many images come before an id."""
        return bisect_left(self._ids, image_id)

    def document(self, image_id: str) -> int | None:
        """The document number of an image, None if there is none."""
        known = self._documents.get(image_id)
        return self._find(image_id) if known is None else known

    def _find(self, image_id: str) -> int | None:
        """Search among the ids, which rise with the numbers."""
        place = bisect_left(self._ids, image_id)
        if place == len(self._ids) or self._ids[place] != image_id:
            return None
        return _remember(self._documents, image_id, place)

    def grounding(self, document: int) -> bytes:
        """The packed grounding of an image."""
        packed: bytes = self.rows.column("grounding")[document].as_py()
        return packed


def _read(
    ids: StringColumn, metadata: StringColumn, documents: dict[str, int], document: int
) -> Stored:
    image_id = ids[document]
    _remember(documents, image_id, document)
    return Stored(image_id, json.loads(metadata[document]))


def _remember(documents: dict[str, int], image_id: str, document: int) -> int:
    if len(documents) >= REMEMBERED:
        documents.clear()
    documents[image_id] = document
    return document


class StringColumn:
    """The texts of a column of large strings, none of which is null, by their numbers."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._chunks = [_chunk(chunk) for chunk in chunks]
        *self._firsts, self._count = accumulate(map(len, chunks), initial=0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> str:
        """A text; raises IndexError for other numbers."""
        if not 0 <= number < self._count:
            raise IndexError(number)
        chunk = bisect_right(self._firsts, number) - 1
        place = number - self._firsts[chunk]
        ends, data = self._chunks[chunk]
        return str(data[ends[place] : ends[place + 1]], "utf-8")


def _chunk(chunk: pa.Array) -> tuple[memoryview, memoryview]:
    """[n + 1] where each text begins, and the last one ends; and the texts in UTF-8."""
    _, ends, data = chunk.buffers()
    last = chunk.offset + len(chunk) + 1
    texts = memoryview(b"" if data is None else data)
    return memoryview(ends).cast("q")[chunk.offset : last], texts


class ImageWriter:
    """Writes the images of documents 0, 1, … in this order, and their typed fields.

    The files `IMAGES` and `FIELDS` depend on the images alone, not on how many are added at once.
    """

    def __init__(self, folder: Path, kinds: Mapping[str, Kind] | None = None) -> None:
        self._folder = folder
        self._fields = FieldWriter(kinds)
        self._file = pa.OSFile(str(folder / IMAGES), "wb")
        self._writer = pa.ipc.new_file(self._file, SCHEMA)
        self._waiting: list[pa.Table] = []
        self._last = ""
        self._count = 0

    def add(self, images: pa.Table) -> None:
        """Append images, as `image_rows` returns them; raises ValueError if ids do not rise."""
        ids: list[str] = images["id"].to_pylist()
        for image_id in ids:
            if image_id <= self._last:
                raise ValueError(f"image {image_id!r} comes after {self._last!r}: not rising")
            self._last = image_id
        self._fields.add(ids, map(json.loads, images["metadata"].to_pylist()))
        self._waiting.append(images)
        self._count += len(images)
        if self._count >= BATCH:
            self._write(self._count // BATCH * BATCH)

    def _write(self, count: int) -> None:
        """Write the first images that wait."""
        table = pa.concat_tables(self._waiting)
        for first in range(0, count, BATCH):
            [batch] = table.slice(first, min(BATCH, count - first)).combine_chunks().to_batches()
            self._writer.write_batch(batch)
        self._waiting = [table.slice(count)]
        self._count -= count

    def close(self) -> None:
        """Finish the files."""
        if self._count:
            self._write(self._count)
        self._writer.close()
        self._file.close()
        self._fields.write(self._folder)


def image_rows(
    ids: Sequence[str],
    metadata: Iterable[JsonMapping],
    groundings: Iterable[bytes],
    content_ids: Iterable[str] | None = None,
) -> pa.Table:
    """Images as rows of an `ImageTable`, by default as they were built."""
    named = [None] * len(ids) if content_ids is None else map(_named, ids, content_ids)
    texts = [json.dumps(values) for values in metadata]
    return pa.table([list(ids), texts, list(named), list(groundings)], schema=SCHEMA)


def _named(image_id: str, content_id: str) -> str | None:
    """A content id as the table has it."""
    return None if content_id in ("", built_content_id(image_id)) else content_id


# ---- while an index is written to ----------------------------------------------------------------


class KnownImages:
    """The images of some segments, with changes since. Safe from any thread.

    One thread at a time changes it, while others look images up.

    Attributes:
        fields: the names of those that images have, or had until their segment is merged.
    """

    def __init__(self, index: Path, listed: SegmentList) -> None:
        self._index = index
        # By log, the newest last: id → metadata, None where an image was deleted.
        self._changes: dict[int, dict[str, Json | None]] = {}
        self.follow(listed)
        self._count = sum(int(live.sum()) for _, live in self._tables)

    def note(self, log: int, change: Change) -> None:
        """Change an image; `log`, the number of the log with the change, never falls."""
        if not isinstance(change, MetadataChange):
            self._count += isinstance(change, Add) - (change.image_id in self)
        metadata = self._changes.setdefault(log, {})[change.image_id] = metadata_of(change)
        self.fields.update(metadata or ())

    def follow(self, listed: SegmentList) -> None:
        """Forget changes that newer segments have."""
        live = listed.live(self._index)
        self._tables = [
            (ImageTable(segment_folder(self._index, name)), own) for name, own in live.items()
        ]
        # After the tables, so that whoever misses a change here finds it there.
        self._changes = {log: own for log, own in self._changes.items() if log >= listed.log}
        self.fields = {
            name for one in live for name in stored_kinds(segment_folder(self._index, one))
        }
        for own in self._changes.values():
            self.fields.update(*filter(None, own.values()))

    def metadata(self, image_id: str) -> JsonMapping | None:
        """An image's metadata, None if there is no such image."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                changed: Json | None = own[image_id]
                return changed
        place = self._place(image_id)
        return None if place is None else place[0].stored(place[1]).metadata

    def __contains__(self, image_id: str) -> bool:
        """Whether there is an image; stored metadata is not read."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                return own[image_id] is not None
        return self._place(image_id) is not None

    def __len__(self) -> int:
        """How many images there are."""
        return self._count

    def _place(self, image_id: str) -> tuple[ImageTable, int] | None:
        """The table of the segment that has an image, and its document number there."""
        for table, live in self._tables:
            document = table.document(image_id)
            if document is not None and live[document]:
                return table, document
        return None


def problem_of(image: ImagePostings, vocabulary: int, largest: int) -> str | None:
    """Why an image cannot be in an index of so many terms and such impacts, else None."""
    terms, impacts, read = image.terms, image.impacts, image.inputs
    positions = len(read.boxes) + len(read.label_terms)
    if not len(terms) == len(impacts) == len(image.positions):
        return "it has other numbers of terms, impacts and positions"
    if len(terms) and not (terms[0] >= 0 and terms[-1] < vocabulary):
        return f"a term is not one of the {vocabulary} of the vocabulary"
    if (terms[1:] <= terms[:-1]).any():
        return "its terms do not rise"
    if ((impacts < 1) | (impacts > largest)).any():
        return f"an impact is not from 1 to {largest}"
    if ((image.positions < -1) | (image.positions >= positions)).any():
        return "a term was won by a position that it lacks"
    if len(read.label_terms) != len(read.label_regions):
        return "it has other numbers of label tokens and of their regions"
    if ((read.label_terms < 0) | (read.label_terms >= vocabulary)).any():
        return f"a label token is not one of the {vocabulary} of the vocabulary"
    if ((read.label_regions < 0) | (read.label_regions >= len(read.boxes))).any():
        return "a label token is of a region that it lacks"
    return None

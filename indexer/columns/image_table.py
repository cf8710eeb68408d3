"""Ids and metadata of images by document number, mapped from an Arrow file."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from indexer.live.origin import BUILT, built_origin
from indexer.lucene.stored import Stored
from indexer.parts import columns_remedy
from sparta.errors import InputError, first_line

IMAGES = "images.arrow"
REMEMBERED = 50_000  # images whose id and metadata are kept, some 400 bytes each
ORIGIN = pa.field("origin", pa.large_string())  # null for images as they were built
SCHEMA = pa.schema([("id", pa.large_string()), ("metadata", pa.large_string()), ORIGIN])


class ImageTable:
    """What an `ImageWriter` wrote, open for reading.

    Attributes:
        rows: the mapped file.

    Raises:
        InputError: if the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        try:
            table = pa.ipc.open_file(pa.memory_map(str(folder / IMAGES))).read_all()
            table.validate(full=True)
            if table.column_names == ["id", "metadata"]:  # built by an earlier version
                table = table.append_column(ORIGIN, pa.nulls(len(table), ORIGIN.type))
            if not table.schema.equals(SCHEMA):
                raise ValueError("it has other columns")
            if table.column("id").null_count or table.column("metadata").null_count:
                raise ValueError("an image has no id or no metadata")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{folder / IMAGES} is damaged ({first_line(error)}); {columns_remedy(folder)}"
            ) from error
        self.rows = table
        self._ids, self._metadata = Texts(table.column("id")), Texts(table.column("metadata"))
        self.stored = lru_cache(REMEMBERED)(self._read)
        self._documents: dict[str, int] = {}  # of ids that were read: those of hits

    def __len__(self) -> int:
        return len(self._ids)

    def id(self, document: int) -> str:
        """The id of an image."""
        return self._ids[document]

    def origin(self, document: int) -> str:
        """What an image was encoded from."""
        return self.rows.column("origin")[document].as_py() or built_origin(self.id(document))

    def origins(self) -> pa.ChunkedArray:
        """[N] what each image was encoded from."""
        import pyarrow.compute as pc  # which a search does not need

        built = pc.binary_join_element_wise(
            *(pa.scalar(BUILT, ORIGIN.type), self.rows.column("id"), pa.scalar("", ORIGIN.type))
        )
        return pc.coalesce(self.rows.column("origin"), built)

    def document(self, image_id: str) -> int | None:
        """The document number of an image, None if there is none."""
        known = self._documents.get(image_id)
        return self._find(image_id) if known is None else known

    def _find(self, image_id: str) -> int | None:
        """Search among the ids, which rise with the numbers."""
        place = bisect_left(self._ids, image_id)
        if place == len(self._ids) or self._ids[place] != image_id:
            return None
        return self._remember(image_id, place)

    def _remember(self, image_id: str, document: int) -> int:
        if len(self._documents) >= REMEMBERED:
            self._documents.clear()
        self._documents[image_id] = document
        return document

    def close(self) -> None:
        """Let the file be unmapped as soon as nothing else refers to this table."""
        vars(self).pop("stored", None)  # a circle, as in `LuceneIndex.close`

    def _read(self, document: int) -> Stored:
        image_id = self._ids[document]
        self._remember(image_id, document)
        return Stored(image_id, json.loads(self._metadata[document]))


class _Chunk(NamedTuple):
    """Texts one behind another.

    Attributes:
        ends: [n + 1] where each begins, and the last one ends, in `data`.
        data: UTF-8.
    """

    ends: memoryview
    data: memoryview


class Texts:
    """The texts of a column, by their numbers.

    Args:
        column: of large strings, none of which is null.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._chunks = [_chunk(chunk) for chunk in chunks]
        *self._firsts, self._count = accumulate(map(len, chunks), initial=0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> str:
        """A text.

        Raises:
            IndexError: if there is none with this number.
        """
        if not 0 <= number < self._count:
            raise IndexError(number)
        chunk = bisect_right(self._firsts, number) - 1
        place = number - self._firsts[chunk]
        ends, data = self._chunks[chunk]
        return str(data[ends[place] : ends[place + 1]], "utf-8")


def _chunk(chunk: pa.Array) -> _Chunk:
    _, ends, data = chunk.buffers()
    last = chunk.offset + len(chunk) + 1
    return _Chunk(
        memoryview(ends).cast("q")[chunk.offset : last],
        memoryview(b"" if data is None else data).cast("B"),
    )

"""Ids and metadata of images by document number, mapped from an Arrow file."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from indexer.fields.kinds import Kind
from indexer.fields.writer import FieldWriter
from indexer.live.origin import BUILT, built_origin
from indexer.lucene.reader import STORED_CACHE, Stored
from indexer.parts import columns_remedy
from sparta.errors import InputError, first_line

IMAGES = "images.arrow"
ORIGIN = pa.field("origin", pa.large_string())  # null for images as they were built
_SCHEMA = pa.schema([("id", pa.large_string()), ("metadata", pa.large_string()), ORIGIN])


class ImageWriter:
    """Writes the images of documents 0, 1, … in this order, and their typed fields.

    Args:
        folder: of the files `IMAGES` and `FIELDS`.
        kinds: declared, by field.
    """

    def __init__(self, folder: Path, kinds: Mapping[str, Kind] | None = None) -> None:
        self._folder = folder
        self._fields = FieldWriter(kinds)
        self._file = pa.OSFile(str(folder / IMAGES), "wb")
        self._writer = pa.ipc.new_file(self._file, _SCHEMA)

    def add(self, ids: Iterable[str], metadata: Iterable[dict[str, Any]]) -> None:
        """Append some images."""
        ids, metadata = list(ids), list(metadata)
        self._fields.add(ids, metadata)
        self._writer.write_table(image_rows(ids, metadata))

    def add_rows(self, images: pa.Table) -> None:
        """Append some images, as `image_rows` returns them."""
        metadata = map(json.loads, images["metadata"].to_pylist())
        self._fields.add(images["id"].to_pylist(), metadata)
        self._writer.write_table(images)

    def close(self) -> None:
        """Finish the files."""
        self._writer.close()
        self._file.close()
        self._fields.write(self._folder)


def image_rows(
    ids: Iterable[str],
    metadata: Iterable[dict[str, Any]],
    origins: Iterable[str] | None = None,
) -> pa.Table:
    """Images as rows of an `ImageTable`, by default as they were built."""
    ids = list(ids)
    named = [None] * len(ids) if origins is None else list(origins)
    return pa.table([ids, [json.dumps(values) for values in metadata], named], schema=_SCHEMA)


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
            if not table.schema.equals(_SCHEMA):
                raise ValueError("it has other columns")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{folder / IMAGES} is damaged ({first_line(error)}); {columns_remedy(folder)}"
            ) from error
        self.rows = table
        self._ids, self._metadata = table.column("id"), table.column("metadata")
        self._count = len(table)
        self._chunks = [chunk for chunk in self._ids.chunks if len(chunk)]
        self._firsts = [chunk[0].as_py() for chunk in self._chunks]
        self._starts = list(accumulate(map(len, self._chunks), initial=0))
        self.stored = lru_cache(STORED_CACHE)(self._read)
        self._documents: dict[str, int] = {}  # of ids that were read: those of hits

    def __len__(self) -> int:
        return self._count

    def id(self, document: int) -> str:
        """The id of an image."""
        number = bisect_right(self._starts, document) - 1
        return _text(self._chunks[number][document - self._starts[number]])

    def origin(self, document: int) -> str:
        """What an image was encoded from."""
        return self.rows.column("origin")[document].as_py() or built_origin(self.id(document))

    def origins(self) -> pa.ChunkedArray:
        """[N] what each image was encoded from."""
        import pyarrow.compute as pc  # which a search does not need

        built = pc.binary_join_element_wise(
            *(pa.scalar(BUILT, ORIGIN.type), self._ids, pa.scalar("", ORIGIN.type))
        )
        return pc.coalesce(self.rows.column("origin"), built)

    def document(self, image_id: str) -> int | None:
        """The document number of an image, None if there is none."""
        known = self._documents.get(image_id)
        return self._find(image_id) if known is None else known

    def _find(self, image_id: str) -> int | None:
        """Search among the ids, which rise with the numbers."""
        number = bisect_right(self._firsts, image_id) - 1
        if number < 0:
            return None
        chunk = self._chunks[number]
        place = bisect_left(chunk, image_id, key=_text)
        if place == len(chunk) or _text(chunk[place]) != image_id:
            return None
        return self._remember(image_id, self._starts[number] + place)

    def _remember(self, image_id: str, document: int) -> int:
        if len(self._documents) >= STORED_CACHE:
            self._documents.clear()
        self._documents[image_id] = document
        return document

    def close(self) -> None:
        """Let the file be unmapped as soon as nothing else refers to this table."""
        vars(self).pop("stored", None)  # a circle, as in `LuceneIndex.close`

    def _read(self, document: int) -> Stored:
        image_id = self._ids[document].as_py()
        self._remember(image_id, document)
        return Stored(image_id, json.loads(self._metadata[document].as_py()))


def _text(value: pa.Scalar) -> str:
    text: str = value.as_py()
    return text

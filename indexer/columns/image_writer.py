"""Writes ids and metadata of images by document number into an Arrow file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from indexer.columns.image_table import IMAGES, SCHEMA
from indexer.fields.kinds import Kind
from indexer.fields.writer import FieldWriter


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
        self._writer = pa.ipc.new_file(self._file, SCHEMA)

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
    return pa.table([ids, [json.dumps(values) for values in metadata], named], schema=SCHEMA)

"""Writes columns and the images beside them: of a new index, and of a segment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.builder import lay_out
from indexer.columns.image_table import IMAGES, SCHEMA
from indexer.columns.manifest import FOLDER, ColumnManifest, lucene_fingerprint
from indexer.columns.row_files import Chunk, RowFiles, SpooledRows
from indexer.fields.kinds import Kind
from indexer.fields.part import FIELDS
from indexer.fields.store import read_kinds
from indexer.fields.writer import FieldWriter
from indexer.parts import Parts, describe_parts
from indexer.postings import Postings
from sparta.atomic import replace_folder, work_folder
from sparta.progress import Progress, no_progress

MOST_THREADS = 4  # each has the postings of 8,160 images in memory


class ColumnWriter:
    """Spools the postings that go into Lucene, and lays them out as columns at the end.

    Args:
        index: the index folder; the spool is beside it, three bytes a posting.
        vocabulary: number of terms.
        bits: of an impact.
    """

    def __init__(self, index: Path, vocabulary: int, bits: int) -> None:
        self._work = TemporaryDirectory(dir=index.parent, prefix=f"{index.name}.rows.")
        self._index = index
        self._rows = RowFiles(Path(self._work.name), vocabulary, bits)
        self._images = ImageWriter(Path(self._work.name), read_kinds(index))

    def add(self, shard: Postings) -> None:
        """Append some images."""
        self._rows.add(shard)
        self._images.add(shard.ids, shard.metadata)

    def lay_out(self, progress: Progress = no_progress) -> None:
        """Make the columns, after the last image was added."""
        self._images.close()
        threads = min(MOST_THREADS, os.cpu_count() or 1)
        self._parts = _lay_out(Path(self._work.name), self.rows(), progress, threads)

    def rows(self) -> SpooledRows:
        """The postings of all images added."""
        return self._rows.rows()

    @property
    def totals(self) -> NDArray[np.int64]:
        """[V] the sum of each term's impacts."""
        return self._rows.totals

    def publish(self) -> None:
        """Put the columns in their place, once the rest of the index folder is finished."""
        folder, work = self._index / FOLDER, Path(self._work.name)
        _publish(folder, work, lucene_fingerprint(self._index), self._parts)

    def __enter__(self) -> ColumnWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the spool."""
        self._rows.close()
        self._work.cleanup()


def write_columns(
    folder: Path, work: Path, rows: SpooledRows, lucene: str, progress: Progress = no_progress
) -> None:
    """Lay postings out as columns, and put those in their place.

    Args:
        folder: their place.
        work: a work folder, with what an `ImageWriter` wrote.
        rows: postings of all images.
        lucene: fingerprint of the Lucene index with the same images.
        progress: stage "columns", in images.
    """
    _publish(folder, work, lucene, _lay_out(work, rows, progress))


def _lay_out(work: Path, rows: SpooledRows, progress: Progress, threads: int = 1) -> Parts:
    """The files of the columns; gigabytes are hashed before something else waits for it."""
    made = work / FOLDER
    made.mkdir()
    lay_out(made, rows, progress, threads=threads)
    for name in (IMAGES, FIELDS):
        (work / name).rename(made / name)
    return describe_parts(made)


def _publish(folder: Path, work: Path, lucene: str, parts: Parts) -> None:
    made = work / FOLDER
    ColumnManifest.save(made, lucene, parts)
    replace_folder(made, folder, work)


def write_segment(
    folder: Path,
    shape: tuple[int, int],
    chunks: Iterable[Chunk],
    order: NDArray[np.int64],
    images: Iterable[pa.Table],
    progress: Progress = no_progress,
    *,
    kinds: Mapping[str, Kind] | None = None,
) -> None:
    """Write and sync a segment; the folder is complete or absent.

    Args:
        folder: to be made.
        shape: number of terms, and bits of an impact.
        chunks: postings of all images in any order.
        order: [N] places of the images among those of the chunks, by id.
        images: their ids and metadata, by id.
        progress: stage "columns", in images.
        kinds: of fields of older images.
    """
    with work_folder(folder) as work, closing(RowFiles(work, *shape)) as files:
        for chunk in chunks:
            files.add(chunk)
        table = ImageWriter(work, kinds)
        for rows in images:
            table.add_rows(rows)
        table.close()
        write_columns(folder, work, files.rows().picked(order), "", progress)


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

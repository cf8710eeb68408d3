"""Writes the columns of an index folder: spools postings while Lucene is written, then lays out."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from indexer.columns.builder import lay_out
from indexer.columns.image_table import IMAGES
from indexer.columns.image_writer import ImageWriter
from indexer.columns.manifest import FOLDER, ColumnManifest, lucene_fingerprint
from indexer.columns.row_files import RowFiles, SpooledRows
from indexer.fields.part import FIELDS
from indexer.fields.store import read_kinds
from indexer.parts import Parts, describe_parts
from indexer.postings import Postings
from sparta.atomic import replace_folder
from sparta.progress import Progress, no_progress

MOST_THREADS = 4  # each has the postings of 16,384 images in memory


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

"""Writes one segment, its postings in files until they are laid out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.image_writer import ImageWriter
from indexer.columns.row_files import Chunk, RowFiles
from indexer.columns.writer import write_columns
from indexer.fields.kinds import Kind
from sparta.atomic import work_folder
from sparta.progress import Progress, no_progress


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

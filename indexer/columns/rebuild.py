"""Columns built from the Lucene index of a folder, where they are missing or outdated."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from indexer.columns.image_writer import ImageWriter
from indexer.columns.lucene_postings import read_images, read_rows
from indexer.columns.manifest import FOLDER, columns_fit, has_columns, lucene_fingerprint
from indexer.columns.writer import write_columns
from indexer.fields.store import read_kinds
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from sparta.atomic import work_folder
from sparta.lock import writing
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer


def rebuild_columns(index: Path, progress: Progress = no_progress) -> None:
    """Build the columns of an index folder from Lucene; existing ones stay in use until then.

    Where another process is building them, wait for it, and take its columns.

    Args:
        index: the folder.
        progress: stage "columns", in images.

    Raises:
        InputError: if the folder is not an index, or is damaged.
    """
    manifest = Manifest.open(index)
    with writing(index / FOLDER, wait=True):
        if has_columns(index) and columns_fit(index):
            return
        vocabulary = WordPieceTokenizer.from_folder(index).vocabulary
        with (
            work_folder(index / FOLDER) as work,
            closing(LuceneIndex(index / LUCENE)) as lucene,
        ):
            images = ImageWriter(work, read_kinds(index))
            for batch in read_images(lucene):
                images.add(*zip(*batch, strict=True))
            images.close()
            rows = read_rows(lucene, vocabulary, manifest.bits, work)
            write_columns(index / FOLDER, work, rows, lucene_fingerprint(index), progress)

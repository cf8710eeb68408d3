"""Columns built from the Lucene index of a folder, where they are missing or outdated."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from indexer.columns.image_table import ImageWriter
from indexer.columns.lucene_postings import read_images, read_rows
from indexer.columns.manifest import FOLDER
from indexer.columns.writer import write_columns
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import LUCENE, Manifest
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer


def rebuild_columns(index: Path, progress: Progress = no_progress) -> None:
    """Build the columns of an index folder from Lucene; existing ones stay in use until then.

    Args:
        index: the folder.
        progress: stage "columns", in images.

    Raises:
        InputError: if the folder is not an index, or is damaged.
    """
    manifest = Manifest.open(index)
    vocabulary = WordPieceTokenizer.from_folder(index).vocabulary
    with (
        TemporaryDirectory(dir=index, prefix=f"{FOLDER}.rows.") as name,
        closing(LuceneIndex(index / LUCENE)) as lucene,
    ):
        images = ImageWriter(Path(name))
        for batch in read_images(lucene):
            images.add(*zip(*batch, strict=True))
        images.close()
        rows = read_rows(lucene, vocabulary, manifest.bits, Path(name))
        write_columns(index, Path(name), rows, len(vocabulary), progress)

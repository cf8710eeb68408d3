"""The columns of an index folder: gathered while it is built, or read back out of Lucene."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from indexer.columns.builder import lay_out
from indexer.columns.from_lucene import read_images, read_rows
from indexer.columns.image_table import IMAGES, ImageWriter
from indexer.columns.manifest import FOLDER, ColumnManifest, lucene_fingerprint
from indexer.columns.row_files import PostingRows, RowFiles
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import LUCENE, Manifest, is_index
from indexer.postings import Postings
from sparta.atomic import finish_replacement, replace_folder
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer


class ColumnGatherer:
    """Collects what goes into Lucene, to lay it out as columns once Lucene is done.

    Args:
        beside: a folder beside which the files lie meanwhile, three bytes a posting.
        vocabulary: number of terms.
        bits: of an impact.
    """

    def __init__(self, beside: Path, vocabulary: int, bits: int) -> None:
        self._work = TemporaryDirectory(dir=beside.parent, prefix=f"{beside.name}.rows.")
        self._vocabulary = vocabulary
        self._rows = RowFiles(Path(self._work.name), vocabulary, bits)
        self._images = ImageWriter(Path(self._work.name))

    def add(self, shard: Postings) -> None:
        """Append some images."""
        self._rows.add(shard)
        self._images.add(shard.ids, shard.metadata)

    def write(self, index: Path, progress: Progress = no_progress) -> None:
        """Write the columns of a finished index folder."""
        self._images.close()
        _write(index, Path(self._work.name), self._rows.rows(), self._vocabulary, progress)

    def __enter__(self) -> ColumnGatherer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the gathered files."""
        self._rows.close()
        self._work.cleanup()


def rebuild_columns(index: Path, progress: Progress = no_progress) -> None:
    """Build the columns of an index folder from Lucene; existing ones stay in use until then.

    Args:
        index: the folder.
        progress: stage "columns", in images.

    Raises:
        InputError: if the folder is no index, or a damaged one.
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
        _write(index, Path(name), rows, len(vocabulary), progress)


def _write(index: Path, work: Path, rows: PostingRows, vocabulary: int, progress: Progress) -> None:
    """Lay rows out in a folder of the work folder, and put that into the index."""
    made = work / FOLDER
    made.mkdir()
    lay_out(made, rows, vocabulary, progress)
    (work / IMAGES).rename(made / IMAGES)
    ColumnManifest.save(made, lucene_fingerprint(index))
    finish_replacement(index / FOLDER, is_index)
    replace_folder(made, index / FOLDER)

"""Columns built from the Lucene index of a folder, where they are missing or outdated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns.layout import reserve
from indexer.columns.manifest import FOLDER, columns_fit, has_columns, lucene_fingerprint
from indexer.columns.row_files import SpooledRows, impact_type, term_type
from indexer.columns.writer import ImageWriter, write_columns
from indexer.fields.store import read_kinds
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.stored import Stored
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from sparta.atomic import work_folder
from sparta.lock import writing
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

AT_ONCE = 2**21  # postings in memory, and those of one term


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


def read_images(lucene: LuceneIndex, batch: int = 65_536) -> Iterator[list[Stored]]:
    """Stored ids and metadata of documents 0, 1, …, a batch at a time."""
    for first in range(0, lucene.documents, batch):
        yield lucene.read_stored(range(first, min(first + batch, lucene.documents)))


def read_rows(
    lucene: LuceneIndex, vocabulary: Sequence[str], bits: int, folder: Path
) -> SpooledRows:
    """The postings of every document; none for those that were deleted.

    Lucene returns them term by term; they are transposed in files, outside of memory.

    Args:
        lucene: the index.
        vocabulary: [V] terms in id order.
        bits: of an impact.
        folder: of the files.
    """
    impact = impact_type(bits)
    paths = folder / "documents.by_term", folder / "impacts.by_term"
    frequencies = np.zeros(len(vocabulary), np.int64)
    with paths[0].open("wb") as documents, paths[1].open("wb") as impacts:
        for term, text in enumerate(vocabulary):
            found = lucene.postings(text)
            frequencies[term] = len(found)
            documents.write(found[:, 0].tobytes())
            impacts.write(found[:, 1].astype(impact).tobytes())
    by_term = _mapped(paths[0], np.int32), _mapped(paths[1], impact)
    lengths = np.zeros(lucene.documents, np.int64)
    for first in range(0, len(by_term[0]), AT_ONCE):
        own = by_term[0][first : first + AT_ONCE]
        lengths += np.bincount(own, minlength=lucene.documents)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    paths = folder / "terms", folder / "impacts"
    rows = SpooledRows(starts[:-1], lengths, frequencies, *paths, impact)
    terms = _created(rows.terms, term_type(len(vocabulary)), int(starts[-1]))
    impacts_by_row = _created(rows.impacts, impact, int(starts[-1]))
    _turn(frequencies, *by_term, starts[:-1].copy(), terms, impacts_by_row)
    return rows


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    if not path.stat().st_size:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r").view(np.ndarray)


def _created(path: Path, dtype: Any, size: int) -> NDArray[Any]:
    if not size:
        path.touch()
        return np.empty(0, dtype)
    array = np.memmap(path, dtype, mode="w+", shape=size).view(np.ndarray)
    reserve(path)
    return array


def _turn(
    frequencies: NDArray[np.int64],
    documents: NDArray[np.int32],
    impacts: NDArray[Any],
    free: NDArray[np.int64],
    terms_out: NDArray[Any],
    impacts_out: NDArray[Any],
) -> None:
    """Postings by term → by document; free[d] is where document d's next posting goes."""
    ends = np.concatenate([[0], np.cumsum(frequencies)])
    first = 0
    while first < len(frequencies):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + AT_ONCE, "right")) - 1)
        own, starts = slice(ends[first], ends[last]), ends[first : last + 1] - ends[first]
        shape = last - first, len(free)
        turned = csr_array((impacts[own], documents[own], starts), shape=shape).tocsc()
        counts = np.diff(turned.indptr)
        places = np.repeat(free - turned.indptr[:-1], counts) + np.arange(len(turned.data))
        terms_out[places], impacts_out[places] = turned.indices + first, turned.data
        free += counts
        first = last

"""Plain inverted lists of a collection on disk, for engines without a builder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eval.bench.query_latency.collections.corpus import Corpus

STARTS, DOCUMENTS, IMPACTS = "starts.npy", "documents.npy", "impacts.npy"


def write_lists(corpus: Corpus, folder: Path, impact: np.dtype) -> None:
    """Write each term's images and impacts, term after term.

    Args:
        corpus: the collection.
        folder: for three npy files: starts [V + 1] int64, documents and impacts [postings].
        impact: type of an impact on disk.
    """
    frequencies = np.zeros(len(corpus.vocabulary), np.int64)
    for rows in corpus.rows():
        frequencies += np.bincount(rows.terms, minlength=len(frequencies))
    starts = np.concatenate([[0], np.cumsum(frequencies)])
    np.save(folder / STARTS, starts)
    shape = (corpus.postings,)
    documents = open_memmap(folder / DOCUMENTS, "w+", np.int32, shape)
    impacts = open_memmap(folder / IMPACTS, "w+", impact, shape)
    ends, first = starts[:-1].copy(), 0
    for rows in corpus.rows():
        part = csr_array(
            (rows.impacts, rows.terms, rows.starts), shape=(len(rows), len(frequencies))
        ).tocsc()
        counts = np.diff(part.indptr)
        # Where each posting goes: the end of its term's list so far, and its place in this part.
        places = np.repeat(ends - part.indptr[:-1], counts) + np.arange(part.nnz)
        documents[places] = part.indices + first
        impacts[places] = part.data
        ends += counts
        first += len(rows)


def read_lists(folder: Path) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.number]]:
    """Starts, documents and impacts, in memory."""
    starts, documents, impacts = (np.load(folder / n) for n in (STARTS, DOCUMENTS, IMPACTS))
    return starts, documents, impacts

"""Query by image as sparse products in memory, with any weighting of the query's terms."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns.lucene_postings import read_images, read_rows
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from indexer.search.terms.query_by_image import COUNTS
from sparta.tokenizer import WordPieceTokenizer

# A term's weight in the query: 1, its impact, or its share of 256, rounded down, which is what
# searchers use.
Weighting = Literal["once", "impact", "share"]

HITS = 10

Matrix = csr_array[Any, tuple[int, int]]


def read_impacts(index: Path) -> tuple[list[str], Matrix]:
    """Ids of an index's N images and their impacts [N, V] int64.

    Raises:
        InputError: if the folder is no index.
    """
    manifest = Manifest.open(index)
    vocabulary = WordPieceTokenizer.from_folder(index).vocabulary
    with closing(LuceneIndex(index / LUCENE)) as lucene, TemporaryDirectory() as folder:
        ids = [stored.image_id for batch in read_images(lucene) for stored in batch]
        rows = read_rows(lucene, vocabulary, manifest.bits, Path(folder))
        starts, terms, impacts = rows.take(np.arange(len(ids)))
        arrays = impacts.astype(np.int64), terms.astype(np.int32), starts
    return ids, csr_array(arrays, shape=(len(ids), len(vocabulary)))


def photo_queries(impacts: Matrix, terms: int | None, counting: Weighting) -> Matrix:
    """Queries [B, V] made of the impacts of B images; see `query_by_image.photo_query`."""
    queries = impacts.copy()
    for start, end in zip(queries.indptr[:-1], queries.indptr[1:], strict=True):
        own = queries.data[start:end]
        own[np.argsort(-own, kind="stable")[terms or len(own) :]] = 0
        if counting == "once":
            own[:] = own > 0
        elif counting == "share":
            own[:] = own * COUNTS // max(1, own.sum())
    queries.eliminate_zeros()
    return queries


def best_hits(by_term: Matrix, asked: NDArray[np.int64], queries: Matrix) -> NDArray[np.int64]:
    """The best ten images for queries made of B images, without those images.

    Args:
        by_term: [V, N] impacts.
        asked: [B] the images.
        queries: [B, V] made of them.

    Returns:
        [B, 10] in no order, -1 where fewer share a term with the query; [B, N] for smaller N.
    """
    scores = (queries @ by_term).toarray()
    scores[np.arange(len(asked)), asked] = 0
    # Of equal scores the image that comes first, without sorting all of them.
    keys = np.arange(scores.shape[1]) - scores * scores.shape[1]
    hits = np.argpartition(keys, min(HITS, scores.shape[1]) - 1, axis=1)[:, :HITS]
    return np.where(np.take_along_axis(scores, hits, axis=1) > 0, hits, -1)


def agreement_of(agreement: NDArray[np.float64], hits: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean agreement [B] of B images with their hits; a missing hit counts as 0."""
    found = np.take_along_axis(agreement, np.maximum(hits, 0), axis=1)
    means: NDArray[np.float64] = np.where(hits >= 0, found, 0).mean(axis=1)
    return means

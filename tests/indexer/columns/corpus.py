"""Random postings of every shape that columns tell apart, and their exact scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns.builder import lay_out
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import (
    BITMAP_SHARE,
    LEVEL_SHARE,
    PostingRows,
    RowFiles,
    SpooledRows,
)
from indexer.store.memtable import NewImage

VOCABULARY = 40


def random_rows(images: int, bits: int, seed: int) -> PostingRows:
    """Terms from everywhere to nowhere, few levels so that many images tie, some images empty."""
    rng = np.random.default_rng(seed)
    share = rng.permutation(np.linspace(0, 1, VOCABULARY) ** 3)
    topics = rng.random((4, VOCABULARY)) < 0.5
    present = (rng.random((images, VOCABULARY)) < share) & topics[rng.integers(0, 4, images)]
    present[rng.random(images) < 0.05] = False
    levels = np.unique(np.geomspace(1, 2**bits - 1, 6).astype(np.int64))
    impacts = np.where(present, rng.choice(levels, present.shape), 0)
    matrix = csr_array(impacts)
    return PostingRows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)


def new_images(count: int, bits: int = 8, seed: int = 0) -> list[NewImage]:
    rows = random_rows(count, bits, seed)
    ends = zip(rows.starts[:-1], rows.starts[1:], strict=True)
    return [
        NewImage(f"{number}", {"width": number}, rows.terms[a:b], rows.impacts[a:b], "", b"")
        for number, (a, b) in enumerate(ends)
    ]


def chunks_of(rows: PostingRows, size: int) -> list[PostingRows]:
    images = len(rows.starts) - 1
    parts = []
    for first in range(0, images, size):
        starts = rows.starts[first : min(first + size, images) + 1]
        own = slice(starts[0], starts[-1])
        parts.append(PostingRows(starts - starts[0], rows.terms[own], rows.impacts[own]))
    return parts


@contextmanager
def spooled(folder: Path, rows: PostingRows, size: int, bits: int = 8) -> Iterator[SpooledRows]:
    """Postings in files, added in chunks of some images."""
    with closing(RowFiles(folder, VOCABULARY, bits)) as files:
        for chunk in chunks_of(rows, size):
            files.add(chunk)
        yield files.rows()


def built(
    folder: Path,
    rows: PostingRows,
    bits: int,
    shares: tuple[float, float] = (LEVEL_SHARE, BITMAP_SHARE),  # rows of every kind
    **options: Any,
) -> ColumnIndex:
    folder.mkdir(parents=True)
    with spooled(folder, rows, 700, bits) as files:
        lay_out(folder, files, shares=shares, **options)
    return ColumnIndex.open(folder)


def exact_top(
    rows: PostingRows, terms: Mapping[int, int], k: int, allowed: NDArray[np.bool_] | None = None
) -> list[tuple[int, int]]:
    """Every document scored by one sparse product, then sorted by score and number."""
    shape = (len(rows.starts) - 1, VOCABULARY)
    counts = np.zeros(VOCABULARY, np.int64)
    for term, count in terms.items():
        counts[term] = count
    matrix = csr_array((rows.impacts.astype(np.int64), rows.terms, rows.starts), shape=shape)
    scores: NDArray[Any] = np.asarray(matrix @ counts)
    if allowed is not None:
        scores = scores * allowed
    best = np.lexsort((np.arange(len(scores)), -scores))[:k]
    return [(int(document), int(scores[document])) for document in best if scores[document] > 0]

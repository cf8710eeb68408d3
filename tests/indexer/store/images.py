"""Small indexes and random postings for tests of the store, and the exact scores of these."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns import builder
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import BITMAP_SHARE, PostingRows, PostingSpool, SpooledRows
from indexer.postings import ImagePostings, Inputs, Postings
from indexer.store.changes import Add, Change
from indexer.store.memtable import NewImage
from indexer.store.snapshot import Snapshot
from indexer.update import writer as writing
from indexer.update.writer import open_writer
from tests.indexer.random_postings import SETTINGS, shards_of, write_postings
from tests.indexer.vocabulary import TOKENIZER

Impacts = Mapping[int, int]  # by term


def image(image_id: str, impacts: Impacts, metadata: dict[str, Any] | None = None) -> ImagePostings:
    """An image whose terms are won by its two regions and its label token in turn."""
    terms = np.array(sorted(impacts), np.int32)
    values = np.array([impacts[term] for term in sorted(impacts)], np.int32)
    positions = (np.arange(len(terms)) % 4 - 1).astype(np.int16)
    boxes = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    inputs = Inputs(boxes, np.array([3], np.int32), np.array([1], np.int16))
    return ImagePostings(image_id, metadata or {}, terms, values, positions, inputs)


def add(image_id: str, impacts: Impacts, metadata: dict[str, Any] | None = None) -> Add:
    return Add(image(image_id, impacts, metadata))


def build(index: Path, images: Iterable[ImagePostings], bits: int = 8, size: int = 10_000) -> Path:
    """Write an index without Lucene; `size` images are given at a time."""
    shards = shards_of(Postings.of(sorted(images, key=lambda one: one.image_id)), size)
    write_postings(index, shards, TOKENIZER, replace(SETTINGS, bits=bits), lucene=False)
    return index


def compact(index: Path, changes: Sequence[Change]) -> None:
    """Write changes, and make a segment of them."""
    with pytest.MonkeyPatch.context() as patched, open_writer(index) as writer:
        patched.setattr(writing, "COMPACT_AT", 0)
        writer.write(changes)
        writer.commit()
        writer.settle()


def found(
    snapshot: Snapshot, terms: Impacts, k: int, allowed: set[str] | None = None
) -> list[tuple[str, int]]:
    """Ids and scores of the best images of a snapshot."""
    mask = None
    if allowed is not None:
        every = range(snapshot.documents)
        mask = np.array([snapshot.stored(one).image_id in allowed for one in every], np.bool_)
        mask.flags.writeable = False  # so that it is remembered
        snapshot.top(terms, k, mask)
    documents, scores = snapshot.top(terms, k, mask)
    ids = [snapshot.stored(document).image_id for document in documents.tolist()]
    return list(zip(ids, scores.tolist(), strict=True))


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
    with closing(PostingSpool(folder, VOCABULARY, bits)) as files:
        for chunk in chunks_of(rows, size):
            files.add(chunk)
        yield files.rows()


def built(
    folder: Path,
    rows: PostingRows,
    bits: int,
    bitmaps: float = BITMAP_SHARE,
    ordered: Callable[[SpooledRows], NDArray[np.int32]] = builder.topical_order,
) -> ColumnIndex:
    """Columns with rows of every kind: terms in more than a share of the images have bitmaps."""
    folder.mkdir(parents=True)
    with spooled(folder, rows, 700, bits) as files, pytest.MonkeyPatch.context() as patched:
        patched.setattr(builder, "MOST_IN_LEVELS", 1.0)
        patched.setattr(builder, "BITMAP_SHARE", bitmaps)
        patched.setattr(builder, "topical_order", ordered)
        builder.lay_out(folder, files)
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

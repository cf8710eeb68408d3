"""Images for live columns, searched by the reference scorer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from indexer.columns.live.compaction import Compaction
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState
from indexer.columns.manifest import FOLDER
from indexer.columns.row_files import PostingRows
from indexer.columns.writer import image_rows, write_segment
from indexer.grounding import Inputs
from indexer.store.changes import Add, Change
from indexer.postings import ImagePostings, Postings
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import ReferenceSearcher

VOCABULARY = len(TOKENIZER.vocabulary)
NO_INPUTS = Inputs(np.empty((0, 4), np.float32), np.empty(0, np.int32), np.empty(0, np.int16))

Impacts = Mapping[int, int]  # by term
Images = dict[str, tuple[dict[str, Any], Impacts]]  # id → metadata and impacts


def image(image_id: str, impacts: Impacts, metadata: dict[str, Any] | None = None) -> ImagePostings:
    terms = np.array(sorted(impacts), np.int32)
    values = np.array([impacts[term] for term in sorted(impacts)], np.int32)
    positions = np.full(len(terms), -1, np.int16)
    return ImagePostings(image_id, metadata or {}, terms, values, positions, NO_INPUTS)


def add(image_id: str, impacts: Impacts, metadata: dict[str, Any] | None = None) -> Add:
    return Add(image(image_id, impacts, metadata))


def postings(images: Images) -> Postings:
    rows = [image(key, impacts, metadata) for key, (metadata, impacts) in sorted(images.items())]
    return Postings.of(rows)


def build(index: Path, images: Images, bits: int) -> None:
    """Write the columns of an index folder, without the rest of it."""
    index.mkdir(exist_ok=True)
    own = postings(images)
    write_segment(
        index / FOLDER,
        (VOCABULARY, bits),
        [PostingRows(own.starts, own.terms, own.impacts)],
        np.arange(len(own)),
        [image_rows(own.ids, own.metadata)],
    )


def compact(index: Path, state: int, changes: Iterable[Change], number: int, bits: int = 8) -> None:
    """Make state `number`, and a segment of this number, of another state and changes."""
    columns = LiveColumns.open(index, state, VOCABULARY, bits)
    segments = ColumnState.open(index, state).segments
    compaction = Compaction(index, number, segments, columns.last(changes))
    compaction.write(VOCABULARY, bits)
    compaction.save(state, number, log=number)


def found(
    columns: LiveColumns, terms: Impacts, k: int, allowed: set[str] | None = None
) -> list[tuple[str, int]]:
    """Ids and scores of the best images of a snapshot."""
    mask = None
    if allowed is not None:
        mask = np.array([columns.stored(d).image_id in allowed for d in range(columns.documents)])
        mask.flags.writeable = False  # so that it is remembered
        columns.top(terms, k, mask)
    documents, scores = columns.top(terms, k, mask)
    ids = [columns.stored(document).image_id for document in documents.tolist()]
    return list(zip(ids, scores.tolist(), strict=True))


def expected(
    images: Images, terms: Impacts, k: int, allowed: set[str] | None = None
) -> list[tuple[str, int]]:
    """The same by the reference scorer."""
    kept = {key: one for key, one in images.items() if allowed is None or key in allowed}
    own = postings(kept)
    words = {TOKENIZER.vocabulary[term]: count for term, count in terms.items()}
    best = ReferenceSearcher(own, TOKENIZER).top(words, k)
    return [(own.ids[row], int(score)) for row, score in best]

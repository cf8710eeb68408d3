"""Small indexes for tests of the store, searched by the reference scorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from indexer.index_writer import write_index
from indexer.postings import ImagePostings, Inputs, Postings, PostingShard
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.snapshot import Snapshot
from tests.indexer.random_postings import SETTINGS
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import ReferenceSearcher

VOCABULARY = len(TOKENIZER.vocabulary)

Impacts = Mapping[int, int]  # by term
Images = dict[str, tuple[dict[str, Any], Impacts]]  # id → metadata and impacts


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


def postings(images: Images) -> Postings:
    rows = [image(key, impacts, metadata) for key, (metadata, impacts) in sorted(images.items())]
    return Postings.of(rows)


def build(index: Path, images: Images, bits: int = 8, size: int = 10_000) -> Path:
    """Write an index without Lucene; `size` images are given at a time."""
    rows = list(postings(images))
    write_index(
        index,
        (PostingShard(Postings.of(rows[i : i + size])) for i in range(0, len(rows), size)),
        TOKENIZER,
        replace(SETTINGS, bits=bits),
        np.zeros(VOCABULARY, np.float32),
        0.5,
        images=len(rows),
        lucene=False,
    )
    return index


def apply(images: Images, change: Change) -> None:
    """Change what an index should have."""
    key = change.image_id
    if isinstance(change, MetadataChange):
        images[key] = (change.metadata, images[key][1])
    elif isinstance(change, Delete):
        images.pop(key, None)
    else:
        own = change.image
        weights = dict(zip(own.terms.tolist(), own.impacts.tolist(), strict=True))
        images[key] = (own.metadata, weights)


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


def expected(
    images: Images, terms: Impacts, k: int, allowed: set[str] | None = None
) -> list[tuple[str, int]]:
    """The same by the reference scorer."""
    kept = {key: one for key, one in images.items() if allowed is None or key in allowed}
    own = postings(kept)
    words = {TOKENIZER.vocabulary[term]: count for term, count in terms.items()}
    best = ReferenceSearcher(own, TOKENIZER).top(words, k)
    return [(own.ids[row], int(score)) for row, score in best]

"""Small indexes for tests of the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.postings import ImagePostings, Inputs, Postings
from indexer.store.changes import Add, Change
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

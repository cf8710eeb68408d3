"""All images of an index, in the orders in which a published one needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from indexer.columns.builder import topical_order
from indexer.columns.index import kernel
from indexer.columns.layout import PostingRows, PostingSpool
from indexer.engines.open import read_language
from indexer.grounding import without_vector
from indexer.store.snapshot import Snapshot
from sparta.json_values import Json
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import WordTables

AT_ONCE = 20_000  # images whose postings are handed to the ordering


class Impacts(NamedTuple):
    """The impacts of images, image by image or term by term."""

    starts: NDArray[np.int64]  # [rows + 1] int64, where each row begins, and the last one ends
    # [P] int32 of the terms that an image has, or of the images that have a term, rising in each
    # row
    numbers: NDArray[np.int32]
    values: NDArray[np.uint16]  # [P] uint16

    def turned(self, size: int) -> Self:
        """The other way, with so many rows."""
        return type(self)(*kernel.transpose(self.starts, self.numbers, self.values, size))


@dataclass(frozen=True)
class Collection:
    """The images of an index; documents are their numbers in the order of their ids."""

    tokenizer: TermTokenizer  # of the index
    tables: WordTables  # of words
    bits: int  # of an impact
    ids: Sequence[str]  # [N] of the documents, rising
    impacts: Impacts  # by document
    order: NDArray[np.int32]  # [N] the document at each position; those alike are neighbours
    metadata: Callable[[int], Json]  # of a document
    groundings: Callable[[Sequence[int]], list[bytes]]  # of some documents, packed

    def __len__(self) -> int:
        return len(self.ids)

    def by_position(self) -> Impacts:
        """Of each term the images that have it, by their positions in the order."""
        vocabulary, places = len(self.tokenizer.vocabulary), np.empty_like(self.order)
        places[self.order] = np.arange(len(self), dtype=np.int32)
        by_term = self.impacts.turned(vocabulary)
        moved = by_term._replace(numbers=places[by_term.numbers])
        return moved.turned(len(self)).turned(vocabulary)


def open_collection(index: Path, progress: Progress = no_progress) -> Collection:
    """Read the postings of an index folder, of which metadata and groundings are read later.

    In memory are some ten bytes a posting. Raises InputError if it is no index, is damaged, or is
    divided into shards.
    """
    snapshot, language = Snapshot.open(index), read_language(index)
    live = snapshot.live_documents().tolist()
    numbered = sorted((snapshot.stored(one).image_id, one) for one in live)
    numbers = np.array([number for _, number in numbered], np.int64)
    impacts = _impacts(snapshot, numbers, progress).turned(len(numbers))
    return Collection(
        language.tokenizer,
        language.tables,
        snapshot.bits,
        [image_id for image_id, _ in numbered],
        impacts,
        ordered(impacts, snapshot.vocabulary, snapshot.bits),
        lambda document: snapshot.stored(int(numbers[document])).metadata,
        lambda documents: [*map(without_vector, snapshot.groundings(numbers[documents].tolist()))],
    )


def _impacts(snapshot: Snapshot, numbers: NDArray[np.int64], progress: Progress) -> Impacts:
    """Of each term."""
    vocabulary = snapshot.vocabulary
    places, values, lengths = [], [], np.zeros(vocabulary, np.int64)
    for term in np.flatnonzero(snapshot.document_frequencies).tolist():
        progress("terms", term + 1, vocabulary)
        column = snapshot.term_impacts(term)[numbers]
        own = np.flatnonzero(column)
        places.append(own.astype(np.int32))
        values.append(column[own].astype(np.uint16))
        lengths[term] = len(own)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    joined = np.concatenate([np.empty(0, np.int32), *places])
    weights = np.concatenate([np.empty(0, np.uint16), *values])
    return Impacts(starts, joined, weights)


def ordered(impacts: Impacts, vocabulary: int, bits: int) -> NDArray[np.int32]:
    """[N] the documents in an order in which those alike are neighbours."""
    starts = impacts.starts
    with (
        TemporaryDirectory() as folder,
        closing(PostingSpool(Path(folder), vocabulary, bits)) as files,
    ):
        for first in range(0, len(starts) - 1, AT_ONCE):
            own = starts[first : first + AT_ONCE + 1]
            part = slice(int(own[0]), int(own[-1]))
            files.add(PostingRows(own - own[0], impacts.numbers[part], impacts.values[part]))
        return topical_order(files.rows())

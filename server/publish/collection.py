"""All images of an index, in the orders in which a published one needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from indexer.columns.builder import topical_order
from indexer.columns.layout import PostingRows, PostingSpool
from indexer.engines.open import read_language
from indexer.manifest import is_sharded
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import WordTables

AT_ONCE = 20_000  # images whose postings are handed to the ordering


@dataclass(frozen=True)
class Collection:
    """The images of an index; documents are their numbers in the order of their ids."""

    tokenizer: WordPieceTokenizer  # of the index
    tables: WordTables  # of words
    bits: int  # of an impact
    ids: Sequence[str]  # [N] of the documents, rising
    impacts: csr_array  # [N, V] sparse, uint16
    order: NDArray[np.int32]  # [N] the document at each position; those alike are neighbours
    metadata: Callable[[int], Json]  # of a document
    groundings: Callable[[Sequence[int]], list[bytes]]  # of some documents, packed

    def __len__(self) -> int:
        return len(self.ids)


def open_collection(index: Path, progress: Progress = no_progress) -> Collection:
    """Read the postings of an index folder, of which metadata and groundings are read later.

    In memory are some ten bytes a posting.

    Raises:
        InputError: if it is no index, is damaged, or is divided into shards.
    """
    if is_sharded(index):
        raise InputError(f"{index} is divided into shards: publish what `sparta merge` makes of it")
    language, snapshot = read_language(index), Snapshot.open(index)
    live = snapshot.live_documents().tolist()
    numbered = sorted((snapshot.stored(one).image_id, one) for one in live)
    numbers = np.array([number for _, number in numbered], np.int64)
    impacts = _impacts(snapshot, numbers, progress)
    return Collection(
        language.tokenizer,
        language.tables,
        snapshot.bits,
        [image_id for image_id, _ in numbered],
        impacts,
        ordered(impacts, snapshot.bits),
        lambda document: snapshot.stored(int(numbers[document])).metadata,
        lambda documents: snapshot.groundings(numbers[documents].tolist()),
    )


def _impacts(snapshot: Snapshot, numbers: NDArray[np.int64], progress: Progress) -> csr_array:
    """[N, V], read term by term."""
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
    shape = (len(numbers), vocabulary)
    return csc_array((weights, joined, starts), shape=shape).tocsr()


def ordered(impacts: csr_array, bits: int) -> NDArray[np.int32]:
    """[N] the documents in an order in which those alike are neighbours."""
    images, vocabulary = impacts.shape
    starts = impacts.indptr.astype(np.int64)
    with (
        TemporaryDirectory() as folder,
        closing(PostingSpool(Path(folder), vocabulary, bits)) as files,
    ):
        for first in range(0, images, AT_ONCE):
            own = starts[first : first + AT_ONCE + 1]
            part = slice(int(own[0]), int(own[-1]))
            files.add(PostingRows(own - own[0], impacts.indices[part], impacts.data[part]))
        return topical_order(files.rows())

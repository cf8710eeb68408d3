"""Searches an index that is written to in its columns; grounding comes from Lucene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState
from indexer.filters.field_index import FieldIndex
from indexer.live.commit import Commit
from indexer.live.history import read_changes
from indexer.lucene.reader import LuceneIndex
from indexer.search.api import Allowed
from indexer.search.dense import StoredImages
from indexer.search.fields import fields_of_columns
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError


class LiveColumnFinder:
    """The columns of one commit, with the query methods of a `LuceneIndex`.

    Args:
        columns: of the commit.
        term_ids: the vocabulary.
    """

    def __init__(self, columns: LiveColumns, term_ids: dict[str, int]) -> None:
        self.columns = columns
        self.stored = columns.stored
        self.document = columns.document
        self.origin_parts = columns.origin_parts
        self._term_ids = term_ids

    @property
    def live(self) -> NDArray[np.bool_] | None:
        """[documents] which of them are not deleted, None for all."""
        return self.columns.live

    def __len__(self) -> int:
        return len(self.columns)

    def close(self) -> None:
        """Nothing: files are mapped as long as something refers to them."""

    def top(self, terms: str, k: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The k best documents and their scores; see `LuceneIndex.top`."""
        counts = Counter(map(self._term_ids.__getitem__, terms.split()))
        documents, scores = self.columns.top(counts, k, allowed)
        return list(zip(documents.tolist(), scores.astype(float).tolist(), strict=True))

    def impacts(self, documents: Sequence[int], terms: Sequence[str]) -> NDArray[np.int64]:
        """The impacts of some documents; see `LuceneIndex.impacts`."""
        return self.columns.impacts(documents, [self._term_ids[term] for term in terms])

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """In how many images each term has an impact; see `LuceneIndex.document_frequencies`."""
        return self.columns.document_frequencies[list(map(self._term_ids.__getitem__, terms))]

    def term_impacts(self, term: str) -> NDArray[np.uint16]:
        """The impacts of all documents for a term; see `LuceneIndex.term_impacts`."""
        return self.columns.term_impacts(self._term_ids[term])

    def largest_impact(self, term: str) -> int:
        """The largest impact of any image that is not deleted; see `LuceneIndex.largest_impact`."""
        return int(self.term_impacts(term).max(initial=0))


class LiveColumnSearcher(LuceneSearcher):
    """Returns the hits of `LuceneSearcher` in a fraction of the time. Safe from any thread.

    Args:
        folder: an index folder that was written to.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = True
    engine = "columns"
    _finder: LiveColumnFinder
    _opened: tuple[Commit, LiveColumns] | None = None

    def _use(self, index: LuceneIndex) -> None:
        super()._use(index)
        try:
            columns = self._columns()
        except InputError:
            newer = index.refreshed()
            if newer is None:
                raise
            # The next commit came, and the files of this one went, before they were read.
            index.close()
            self._use(newer)
            return
        self._opened = self.commit, columns
        self._finder = LiveColumnFinder(columns, self._term_ids)

    def _columns(self) -> LiveColumns:
        """The columns of the commit, made from those of a former one if there are any."""
        former, commit, folder = self._opened, self.commit, self._folder
        if former and former[0].columns == commit.columns:
            since = read_changes(folder, former[0].log, former[0].bytes, commit)
            return former[1].after(since)
        opened = LiveColumns.open(
            folder,
            commit.columns,
            len(self._term_ids),
            self.manifest.bits,
            former[1] if former else None,
        )
        first = ColumnState.open(folder, commit.columns).log
        return opened.after(read_changes(folder, first, 0, commit))

    @property
    def images(self) -> StoredImages:
        """The images as dense searchers take them."""
        return self._finder

    def _open_fields(self) -> FieldIndex:
        return fields_of_columns(self._folder, self._finder.columns)

    @property
    def _documents(self) -> int:
        return self._finder.columns.documents

    def _in_lucene(self, image_ids: Sequence[str], documents: Sequence[int]) -> list[int]:
        found = [self.index.document(image_id) for image_id in image_ids]
        return [document for document in found if document is not None]

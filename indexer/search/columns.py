"""Searches an index folder in its columns; ids, metadata and grounding come from Lucene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.image_table import ImageTable
from indexer.columns.index import ColumnIndex
from indexer.columns.manifest import FOLDER, ColumnManifest
from indexer.parts import check_small_parts
from indexer.search.api import Allowed
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError


class ColumnFinder:
    """The columns of an index folder, with the query methods of a `LuceneIndex`.

    Args:
        folder: `columns` of the index.
        term_ids: the vocabulary.
    """

    def __init__(self, folder: Path, term_ids: dict[str, int]) -> None:
        check_small_parts(folder, ColumnManifest.open(folder).parts)
        self.index = ColumnIndex.open(folder)
        self.images = ImageTable(folder)
        self.stored = self.images.stored
        self.document = self.images.document
        self._term_ids = term_ids

    def top(self, terms: str, k: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The k best documents and their scores; see `LuceneIndex.top`."""
        counts = Counter(map(self._term_ids.__getitem__, terms.split()))
        documents, scores = self.index.top(counts, k, allowed)
        return list(zip(documents.tolist(), scores.astype(float).tolist(), strict=True))

    def impacts(self, documents: Sequence[int], terms: Sequence[str]) -> NDArray[np.int64]:
        """The impacts of some documents; see `LuceneIndex.impacts`."""
        return self.index.impacts(documents, [self._term_ids[term] for term in terms])

    def largest_impact(self, term: str) -> int:
        """The largest impact of any document for a term; see `LuceneIndex.largest_impact`."""
        return self.index.largest_impact(self._term_ids[term])

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """In how many images each term has an impact; see `LuceneIndex.document_frequencies`."""
        return self.index.document_frequencies[list(map(self._term_ids.__getitem__, terms))]

    def term_impacts(self, term: str) -> NDArray[np.uint16]:
        """The impacts of all documents for a term; see `LuceneIndex.term_impacts`."""
        return self.index.term_impacts(self._term_ids[term])


class ColumnSearcher(LuceneSearcher):
    """Returns the hits of `LuceneSearcher` in a fraction of the time. Safe from any thread.

    Args:
        folder: an index folder whose columns match its Lucene index.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = True
    engine = "columns"

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        try:
            self._open_columns(Path(folder))
        except BaseException:
            self.index.close()  # Java would keep its files
            raise

    def _open_columns(self, folder: Path) -> None:
        self._columns = ColumnFinder(folder / FOLDER, self._term_ids)
        wanted = self.index.documents
        for found in (len(self._columns.index), len(self._columns.images)):
            if found != wanted:
                raise InputError(
                    f"{folder}: the columns have {found} images, Lucene {wanted}; build the index "
                    "again"
                )
        if wanted > len(self.index):
            # Deleted images are still in the table; Lucene does not find them.
            self._columns.document = self.index.document
        self._finder = self._columns

    def close(self) -> None:
        """Close the index's files, and let the columns be unmapped."""
        self._columns.images.close()
        super().close()

    def warm_up(self) -> None:
        """Read the columns from disk, which takes seconds, and warm up as `LuceneSearcher`."""
        self._columns.index.read_ahead()
        super().warm_up()

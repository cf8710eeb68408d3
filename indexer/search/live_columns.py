"""Searches an index in its segments."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from indexer.filters.field_index import FieldIndex
from indexer.search.api import Allowed
from indexer.search.dense import StoredImages
from indexer.search.fields import warm_up_filters
from indexer.search.lucene import LuceneSearcher
from indexer.search.terms.counted import counted, pairs
from indexer.store.snapshot import Snapshot


class SnapshotFinder:
    """One commit, with the query methods of a `LuceneIndex`.

    Args:
        images: of the commit.
        term_ids: the vocabulary.
    """

    def __init__(self, images: Snapshot, term_ids: dict[str, int]) -> None:
        self.images = images
        self.stored = images.stored
        self.document = images.document
        self.origin_parts = images.origin_parts
        self._term_ids = term_ids

    @property
    def live(self) -> NDArray[np.bool_] | None:
        """[documents] which of them are not deleted, None for all."""
        return self.images.live

    def __len__(self) -> int:
        return len(self.images)

    def close(self) -> None:
        """Nothing: files are mapped as long as something refers to them."""

    def top(self, terms: str, k: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The k best documents and their scores; see `LuceneIndex.top`."""
        return pairs(*self.images.top(counted(terms, self._term_ids), k, allowed))

    def impacts(self, documents: Sequence[int], terms: Sequence[str]) -> NDArray[np.int64]:
        """The impacts of some documents; see `LuceneIndex.impacts`."""
        return self.images.impacts(documents, [self._term_ids[term] for term in terms])

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """In how many images each term has an impact; see `LuceneIndex.document_frequencies`."""
        return self.images.document_frequencies[list(map(self._term_ids.__getitem__, terms))]

    def term_impacts(self, term: str) -> NDArray[np.uint16]:
        """The impacts of all documents for a term; see `LuceneIndex.term_impacts`."""
        return self.images.term_impacts(self._term_ids[term])

    def largest_impact(self, term: str) -> int:
        """The largest impact of any image that is not deleted; see `LuceneIndex.largest_impact`."""
        return self.images.largest_impact(self._term_ids[term])


class LiveColumnSearcher(LuceneSearcher):
    """Returns the hits of `LuceneSearcher` in a fraction of the time. Safe from any thread.

    Args:
        folder: an index folder.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = True
    engine = "columns"
    _finder: SnapshotFinder

    def _open(self) -> None:
        self._show(Snapshot.open(self._folder))

    def _show(self, images: Snapshot) -> None:
        self.snapshot, self.commit = images, images.commit
        self._finder, self._images = SnapshotFinder(images, self._term_ids), len(images)
        self._forget()

    def continued(self) -> LuceneSearcher | None:
        """A searcher of a commit that continues this one; see `Follower.continued`."""
        images = self.snapshot.refreshed()
        if images is None:
            return None
        newer = copy(self)
        newer._show(images)
        newer._keep_held_terms(self)
        return newer

    @property
    def images(self) -> StoredImages:
        """The images as dense searchers take them."""
        return self._finder

    def _open_fields(self) -> FieldIndex:
        return self.snapshot.field_index()

    @property
    def _documents(self) -> int:
        return self.snapshot.documents

    def _held_by(self, document: int) -> list[int]:
        terms: list[int] = self.snapshot.terms_of(document).tolist()
        return terms

    def packed_groundings(self, image_ids: Sequence[str]) -> list[bytes]:
        """The groundings of some images.

        Raises:
            UnknownImageError: if the index lacks one.
        """
        return self.snapshot.groundings(map(self._document, image_ids))

    def warm_up(self) -> None:
        """Answer a query, and open the fields."""
        self._warm_up_searching()
        warm_up_filters(self.field_index())

    def prepare(self) -> None:
        """Make what all processes share that are forked afterwards: fields, tables of words."""
        self.warm_up()

    def close(self) -> None:
        """Nothing: files are mapped as long as something refers to them."""

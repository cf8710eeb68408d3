"""Searches an index that is written to in its columns; only groundings come from Lucene."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial

import numpy as np
from numpy.typing import NDArray

from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState
from indexer.filters.field_index import FieldIndex
from indexer.grounding import Grounding, Inputs, pack
from indexer.live.commit import Commit
from indexer.live.history import read_changes
from indexer.lucene.commits import newest_id, read_newest
from indexer.lucene.latest import LatestLucene
from indexer.parts import LUCENE
from indexer.search.api import Allowed
from indexer.search.dense import StoredImages
from indexer.search.fields import fields_of_columns, warm_up_filters
from indexer.search.lucene import LuceneSearcher, open_lucene
from indexer.search.preparing import Preparation
from indexer.search.terms.counted import counted, pairs
from sparta.errors import InputError

_NONE = np.empty(0, np.int32)
# The grounding of an image of whose terms nothing is known.
UNGROUNDED = pack(
    Grounding(_NONE, _NONE, Inputs(np.empty((0, 4), np.float32), _NONE, _NONE.astype(np.int16)))
)


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
        return pairs(*self.columns.top(counted(terms, self._term_ids), k, allowed))

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

    Java, which reads what explains a hit, is started when it is first needed, and follows a commit
    when that is explained.

    Args:
        folder: an index folder that was written to.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = True
    engine = "columns"
    _finder: LiveColumnFinder
    _lucene: LatestLucene
    _at: str
    _current: LiveColumns
    _opened = False

    def _open(self) -> None:
        self._open_newest()
        self._preparation = Preparation()  # for every commit
        self._lucene = LatestLucene(partial(open_lucene, self._folder, self.manifest))

    def _open_newest(self) -> None:
        """Answer from the newest commit."""
        while True:
            newest = read_newest(self._folder / LUCENE)
            if newest is None:
                raise InputError(f"{self._folder / LUCENE} has no commit: build the index again")
            try:
                commit = Commit.of(newest.data, self._folder)
                columns = self._columns(commit)
                break
            except (FileNotFoundError, InputError):
                # The next commit came, and the files of this one went, before they were read?
                if newest_id(self._folder / LUCENE) == newest.id:
                    raise
        self._at, self._current, self.commit = newest.id, columns, commit
        self._opened = True
        self._finder, self._images = LiveColumnFinder(columns, self._term_ids), len(columns)
        self._forget()

    def continued(self) -> LuceneSearcher | None:
        """A searcher of a commit that continues this one; see `Follower.continued`."""
        if newest_id(self._folder / LUCENE) == self._at:
            return None
        newer = copy(self)
        newer._open_newest()
        newer._lucene = self._lucene.shared()
        newer._keep_held_terms(self)
        return newer

    def _columns(self, commit: Commit) -> LiveColumns:
        """The columns of a commit, made from those of a former one if there are any."""
        folder = self._folder
        if self._opened:
            former = self.commit
            self._check_continued(commit)
            if former.columns == commit.columns:
                return self._current.after(read_changes(folder, former.log, former.bytes, commit))
        opened = LiveColumns.open(
            folder,
            commit.columns,
            len(self._term_ids),
            self.manifest.bits,
            self._current if self._opened else None,
        )
        first = ColumnState.open(folder, commit.columns).log
        return opened.after(read_changes(folder, first, 0, commit))

    @property
    def images(self) -> StoredImages:
        """The images as dense searchers take them."""
        return self._finder

    def _open_fields(self) -> FieldIndex:
        return fields_of_columns(self._folder, self._current)

    @property
    def _documents(self) -> int:
        return self._current.documents

    def _held_by(self, document: int) -> list[int]:
        terms: list[int] = self._current.postings_of(document)[0].tolist()
        return terms

    def packed_groundings(self, image_ids: Sequence[str]) -> list[bytes]:
        """The groundings of some images; of one that was replaced since, an empty one.

        Raises:
            UnknownImageError: if the index lacks one.
        """
        columns, documents = self._current, list(map(self._document, image_ids))
        same: dict[str, int] = {}
        with self._lucene.reading(self.commit.version) as lucene:
            for image_id, document in zip(image_ids, documents, strict=True):
                place = lucene.document(image_id)
                if place is not None and lucene.origin(place) == columns.origin(document):
                    same[image_id] = place
            packed = dict(zip(same, lucene.packed_groundings([*same.values()]), strict=True))
        return [packed.get(image_id, UNGROUNDED) for image_id in image_ids]

    def warm_up(self) -> None:
        """Answer a query, and open the fields."""
        self._warm_up_searching()
        warm_up_filters(self.field_index())

    def prepare_explaining(self) -> None:
        """Start Java in a thread, unless that was done; see `Preparable`."""
        self._preparation.start(self._warm_up_explaining)

    def close(self) -> None:
        """Close the index's files."""
        self._preparation.wait()
        self._lucene.close()

"""TEMPORARY: the interface of `indexer.store.snapshot.Snapshot` over today's columns and Lucene."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState
from indexer.columns.manifest import columns_fit, has_columns
from indexer.fields.store import read_kinds
from indexer.filters.field_index import FieldIndex
from indexer.grounding import Grounding, Inputs, pack
from indexer.live.commit import Commit
from indexer.live.history import read_changes
from indexer.lucene.commits import newest_id, read_newest
from indexer.lucene.latest import LatestLucene
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE, check_small_parts
from indexer.postings import ImagePostings
from indexer.search.answer import ReplacedError
from sparta.errors import InputError

_NONE = np.empty(0, np.int32)
UNGROUNDED = pack(
    Grounding(_NONE, _NONE, Inputs(np.empty((0, 4), np.float32), _NONE, _NONE.astype(np.int16)))
)


class Snapshot:
    """One commit of an index."""

    def __init__(
        self, index: Path, manifest: Manifest, at: str, commit: Commit, columns: LiveColumns,
        lucene: LatestLucene,
    ) -> None:  # fmt: skip
        self._index, self._manifest, self._at, self.commit = index, manifest, at, commit
        self.columns, self._lucene = columns, lucene
        self.documents, self.live = columns.documents, columns.live
        self.vocabulary, self.bits = columns.vocabulary, columns.bits
        self.top, self.impacts, self.term_impacts = (
            columns.top,
            columns.impacts,
            columns.term_impacts,
        )
        self.document, self.stored = columns.document, columns.stored
        self.origin_parts = columns.origin_parts
        self._fields: FieldIndex | None = None

    @classmethod
    def open(cls, index: Path) -> Snapshot:
        manifest = Manifest.open(index)
        check_small_parts(index, manifest.parts)
        if not manifest.live and (not has_columns(index) or not columns_fit(index)):
            from indexer.columns.rebuild import rebuild_columns

            rebuild_columns(index)
        return _newest(index, manifest, None)

    def refreshed(self) -> Snapshot | None:
        if newest_id(self._index / LUCENE) == self._at:
            return None
        return _newest(self._index, self._manifest, self)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def document_frequencies(self) -> NDArray[np.int64]:
        return self.columns.document_frequencies

    def largest_impact(self, term: int) -> int:
        return int(self.top({term: 1}, 1)[1].max(initial=0))

    def terms_of(self, document: int) -> NDArray[np.int64]:
        return self.columns.postings_of(document)[0]

    def groundings(self, documents: Sequence[int]) -> list[bytes]:
        columns, same = self.columns, dict[int, int]()
        with self._lucene.reading(self.commit.version) as lucene:
            for document in documents:
                place = lucene.document(columns.stored(document).image_id)
                if place is not None and lucene.origin(place) == columns.origin(document):
                    same[document] = place
            packed = dict(zip(same, lucene.packed_groundings([*same.values()]), strict=True))
        return [packed.get(document, UNGROUNDED) for document in documents]

    def images(self, documents: Sequence[int]) -> Iterator[ImagePostings]:
        with self._lucene.reading(self.commit.version) as lucene:
            from sparta.tokenizer import WordPieceTokenizer

            places = [lucene.document(self.stored(one).image_id) for one in documents]
            vocabulary = WordPieceTokenizer.from_folder(self._index).vocabulary
            yield from lucene.images([one for one in places if one is not None], vocabulary)

    def field_index(self) -> FieldIndex:
        if self._fields is None:
            kinds, parts = read_kinds(self._index), []
            for segment in self.columns.segments.all:
                parts.append(segment.fields(kinds))
                kinds = parts[-1].kinds | kinds
            for newest in self.columns.newest:
                for part in newest.fields(kinds):
                    parts.append(part)
                    kinds = part.kinds | kinds
            self._fields = FieldIndex(parts, self.columns.live)
        return self._fields

    def read_ahead(self) -> None:
        for segment in self.columns.segments.all:
            segment.index.read_ahead()


def _newest(index: Path, manifest: Manifest, former: Snapshot | None) -> Snapshot:
    while True:
        newest = read_newest(index / LUCENE)
        if newest is None:
            raise InputError(f"{index / LUCENE} has no commit: build the index again")
        try:
            commit = Commit.of(newest.data, index)
            columns = _columns(index, manifest, commit, former)
            break
        except (FileNotFoundError, InputError):
            if newest_id(index / LUCENE) == newest.id:
                raise

    def opened() -> LuceneIndex:
        return LuceneIndex(index / LUCENE, mapped=False)

    return Snapshot(index, manifest, newest.id, commit, columns, LatestLucene(opened))


def _columns(
    index: Path, manifest: Manifest, commit: Commit, former: Snapshot | None
) -> LiveColumns:
    if former is not None:
        read = Manifest.read(index)
        same = read == former._manifest or read == former._manifest.as_live()
        if not commit.continues(former.commit) or not same:
            raise ReplacedError(f"{index} is another index by now: open it again")
        if former.commit.columns == commit.columns:
            changes = read_changes(index, former.commit.log, former.commit.bytes, commit)
            return former.columns.after(changes)
    from sparta.tokenizer import WordPieceTokenizer

    terms = len(WordPieceTokenizer.from_folder(index).vocabulary)
    kept = former.columns if former is not None else None
    opened = LiveColumns.open(index, commit.columns, terms, manifest.bits, kept)
    first = ColumnState.open(index, commit.columns).log
    return opened.after(read_changes(index, first, 0, commit))

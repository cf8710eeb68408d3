"""Searches an index folder in its columns; only groundings come from Lucene."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indexer.columns.image_table import ImageTable
from indexer.columns.index import ColumnIndex
from indexer.columns.manifest import FOLDER, ColumnManifest, lucene_fingerprint
from indexer.live.commit import Commit
from indexer.lucene.integrity import check_small_index
from indexer.manifest import Manifest
from indexer.parts import LUCENE, check_small_parts
from indexer.search.api import Allowed, ReplacedError
from indexer.search.lucene import LuceneSearcher, open_lucene
from indexer.search.preparing import Preparation
from indexer.search.terms.counted import counted, pairs
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.filters.field_index import FieldIndex
    from indexer.lucene.reader import LuceneIndex


class ColumnFinder:
    """The columns of an index folder, with the query methods of a `LuceneIndex`.

    Args:
        folder: `columns` of the index.
        term_ids: the vocabulary.
    """

    def __init__(self, folder: Path, term_ids: dict[str, int]) -> None:
        self.index = ColumnIndex.open(folder)
        self.images = ImageTable(folder)
        self.stored = self.images.stored
        self.document = self.images.document
        self._term_ids = term_ids

    def top(self, terms: str, k: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The k best documents and their scores; see `LuceneIndex.top`."""
        return pairs(*self.index.top(counted(terms, self._term_ids), k, allowed))

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


class _LazyLucene:
    """The Lucene index beside the columns of an index folder, opened by the first that needs it.

    Args:
        folder: the index folder.
        manifest: of it.
        built_from: fingerprint of the state of the Lucene index that the columns have.
    """

    def __init__(self, folder: Path, manifest: Manifest, built_from: str) -> None:
        self._folder, self._manifest, self._built_from = folder, manifest, built_from
        self._lock = Lock()
        self._opened: LuceneIndex | None = None

    def opened(self) -> LuceneIndex:
        """The index itself.

        Raises:
            InputError: if it is damaged, or was written to or replaced meanwhile.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def is_newest(self) -> bool:
        """Whether the Lucene index is still in that state."""
        return lucene_fingerprint(self._folder) == self._built_from

    def _open(self) -> LuceneIndex:
        if not self.is_newest():
            raise InputError(f"{self._folder} was written to or replaced: open it again")
        index = open_lucene(self._folder, self._manifest, mapped=False)  # few reads
        # What replaced it while it was opened is another one.
        if not self.is_newest():
            index.close()
            return self._open()
        return index

    def close(self) -> None:
        """Close the index if it was opened."""
        if self._opened is not None:
            self._opened.close()


class ColumnSearcher(LuceneSearcher):
    """Returns the hits of `LuceneSearcher` in a fraction of the time. Safe from any thread.

    Java, which reads what explains a hit, is started when it is first needed.

    Args:
        folder: an index folder whose columns match its Lucene index.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = True
    engine = "columns"

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.reopen = partial(_open_columns, self._folder)

    def _open(self) -> None:
        folder, found = self._folder, ColumnManifest.open(self._folder / FOLDER)
        check_small_parts(folder / FOLDER, found.parts)
        check_small_index(folder / LUCENE)
        self._preparation = Preparation()
        self._lucene = _LazyLucene(folder, self.manifest, found.lucene)
        self.commit = Commit()
        self._columns = ColumnFinder(folder / FOLDER, self._term_ids)
        self._finder, self._images = self._columns, self.manifest.images
        documents = len(self._columns.index)
        if documents != self._images or documents != len(self._columns.images):
            self._check_deleted()

    def _check_deleted(self) -> None:
        """Find no images that Lucene has deleted, which are in the table still.

        Raises:
            InputError: if the columns have other images than Lucene.
        """
        wanted = self.index.documents
        for found in (len(self._columns.index), len(self._columns.images)):
            if found != wanted:
                self.index.close()  # Java would keep its files
                raise InputError(
                    f"{self._folder}: the columns have {found} images, Lucene {wanted}; build the "
                    "index again"
                )
        self._columns.document = self.index.document

    @property
    def index(self) -> LuceneIndex:
        """The Lucene index, with the groundings of the images.

        Raises:
            InputError: if it is damaged, or was written to or replaced since this was opened.
        """
        return self._lucene.opened()

    def continued(self) -> None:
        """Nothing as long as the index is as it was built; see `Follower.continued`."""
        if not self._lucene.is_newest():
            raise ReplacedError(f"{self._folder} was written to or replaced: open it again")

    def close(self) -> None:
        """Close the index's files, and let the columns be unmapped."""
        self._preparation.wait()
        self._columns.images.close()
        self._lucene.close()

    def warm_up(self) -> None:
        """Read the columns from disk, which takes seconds, and open what `prepare` does."""
        self._columns.index.read_ahead()
        self.prepare()

    def prepare(self) -> None:
        """Make what all processes share that are forked afterwards: fields, tables of words."""
        from indexer.search.fields import warm_up_filters

        self._warm_up_searching()
        warm_up_filters(self.field_index())

    def prepare_explaining(self) -> None:
        """Start Java in a thread, unless that was done; see `Preparable`."""
        self._preparation.start(self._warm_up_explaining)

    @property
    def _find_image(self) -> Callable[[str], str | None]:
        return partial(_any_image, self._columns, self._term_ids)

    @property
    def _documents(self) -> int:
        return len(self._columns.index)

    def _open_fields(self) -> FieldIndex:
        from indexer.fields.part import FIELDS, FieldPart
        from indexer.filters.field_index import FieldIndex

        if self._documents == self._images and (self._folder / FOLDER / FIELDS).is_file():
            return FieldIndex([FieldPart.open(self._folder / FOLDER)], None)
        return super()._open_fields()


def _open_columns(folder: Path) -> LuceneSearcher:
    from indexer.search.live_columns import LiveColumnSearcher

    live = Manifest.open(folder).live
    return LiveColumnSearcher(folder) if live else ColumnSearcher(folder)


def _any_image(columns: ColumnFinder, term_ids: Mapping[str, int], term: str) -> str | None:
    """No image's id for a term that some image has: no later commit asks whether it still has."""
    return "" if term in term_ids and columns.largest_impact(term) else None

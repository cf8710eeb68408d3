"""Searches an index folder with Lucene; needs neither torch nor transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from indexer.filters.field_index import FieldIndex
from indexer.live.commit import Commit
from indexer.lucene.integrity import check_small_index
from indexer.lucene.reader import LuceneIndex, Stored
from indexer.manifest import Manifest
from indexer.parts import LUCENE, check_small_parts
from indexer.search.api import (
    Allowed,
    Explanation,
    Hit,
    Matching,
    SearchResult,
    SimilarResult,
    Timings,
    UnknownImageError,
)
from indexer.search.explanations import explanations, terms_of_counts, terms_of_words
from indexer.search.fields import StoredDocuments, open_fields
from indexer.search.query_by_image import image_query, repeated_terms, without_document
from indexer.search.query_reader import QueryReader
from sparta.errors import InputError
from sparta.substitutes import SubstituteTable
from sparta.tokenizer import WordPieceTokenizer

WARM_UP_QUERIES = 200
EXPLAINED = 10  # of the warm-up queries, every tenth
READ_AHEAD = 20_000  # images; reading them takes a quarter of a second


class Finder(Protocol):
    """Finds the best documents and their ids: a `LuceneIndex`, or columns in memory."""

    def top(  # noqa: D102
        self, terms: str, k: int, allowed: Allowed | None = None
    ) -> list[tuple[int, float]]: ...
    def document(self, image_id: str) -> int | None: ...  # noqa: D102
    def impacts(  # noqa: D102
        self, documents: Sequence[int], terms: Sequence[str]
    ) -> NDArray[np.int64]: ...
    @property
    def stored(self) -> Callable[[int], Stored]: ...  # noqa: D102


class LuceneSearcher:
    """Sums the impacts of a query's word pieces in Lucene (equation 15 on integers).

    Attributes:
        manifest: of the index folder.
        index: the Lucene index, with ids and metadata of the images.
        commit: the state of a live index that is searched.
        quick: whether a search takes at most a millisecond, for any number of images.
        engine: its name, as `--engine` takes it.

    Args:
        folder: an index folder made by `sparta index`.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = False
    engine = "lucene"

    def __init__(self, folder: str | Path) -> None:
        self._folder = folder = Path(folder)
        self.manifest = Manifest.open(folder)
        check_small_parts(folder, self.manifest.parts)
        index = open_lucene(folder, self.manifest)
        try:
            self._tokenizer = WordPieceTokenizer.from_folder(folder)
            self.manifest.check_vocabulary(folder, self._tokenizer.vocabulary_hash)
            self._table = SubstituteTable.open(folder)
            self._term_ids = {term: i for i, term in enumerate(self._tokenizer.vocabulary)}
            self._use(index)
        except BaseException:
            index.close()  # Java would keep its files
            raise

    def _use(self, index: LuceneIndex) -> None:
        """Answer from the commit at which a Lucene index is open."""
        self.index = index
        self.commit = Commit.of(index.commit_data, self._folder)
        self._finder: Finder = index
        self._reader = QueryReader(self._tokenizer, self._table, index.document_frequency)
        self._images = len(index)
        self._fields: FieldIndex | None = None

    def refreshed(self) -> Self | None:
        """A searcher of the newest commit, None if this one is; both are to be closed."""
        index = self.index.refreshed()
        if index is None:
            return None
        newer = copy(self)
        newer._use(index)
        return newer

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
    ) -> SearchResult:
        """The k best images for a text; see `Searcher.search`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        read = self._reader.read(query, substitute)
        tokenised = time.perf_counter()
        hits = self.hits(self._finder.top(read.terms, k, allowed))
        end = time.perf_counter()
        tokenise, search = 1000 * (tokenised - start), 1000 * (end - tokenised)
        timings = Timings(tokenise, search, tokenise + search)
        return SearchResult(hits, read.unknown, timings, substitutions=read.substitutions)

    def matching(
        self, query: str, *, substitute: bool = True, allowed: Allowed | None = None
    ) -> Matching:
        """All documents that `search` finds with k large enough."""
        read = self._reader.read(query, substitute)
        documents = self._finder.top(read.terms, self.index.documents, allowed)
        return Matching(documents, read.unknown, read.substitutions)

    def field_index(self) -> FieldIndex:
        """The typed fields of the images; opened by the first call.

        Raises:
            InputError: if they are damaged.
        """
        if self._fields is None:
            self._fields = open_fields(self._folder, self._numbered())
        return self._fields

    def similar(
        self, image_id: str, k: int = 10, *, allowed: Allowed | None = None
    ) -> SimilarResult:
        """The k images most similar to an indexed one; see `Searcher.similar`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        document = self._document(image_id)
        [grounded] = self._in_lucene([image_id], [document])
        terms = [self._tokenizer.vocabulary[i] for i in self.index.grounding(grounded).terms]
        [impacts] = self._finder.impacts([document], terms).tolist()
        query = image_query(dict(zip(terms, impacts, strict=True)))
        read = time.perf_counter()
        hits = self.hits(
            without_document(self._finder.top(repeated_terms(query), k + 1, allowed), document, k)
        )
        end = time.perf_counter()
        timings = Timings(*(1000 * t for t in (read - start, end - read, end - start)))
        return SimilarResult(hits, [], timings, query)

    def hits(self, found: Iterable[tuple[int, float]], first: int = 1) -> list[Hit]:
        """The hits of documents with their scores, the first of which has this rank."""
        hits = []
        for rank, (document, score) in enumerate(found, start=first):
            image_id, metadata = self._finder.stored(document)
            hits.append(Hit(rank, image_id, score, metadata))
        return hits

    def warm_up(self) -> None:
        """Answer some queries, read the ids of some images, and tokenise all whole words.

        Afterwards Java has compiled the query path, numba what explains, the hits of a small index
        are cached, and so are most words of a query.
        """
        for document in range(min(len(self), READ_AHEAD)):
            self._finder.stored(document)
        words = [term for term in self._tokenizer.vocabulary if term.isalpha()]
        for word in words:
            self._reader.read(word, substitute=True)
        for start in range(WARM_UP_QUERIES):
            query = " ".join(words[start::WARM_UP_QUERIES][:10])
            hits = self.search(query).hits
            if start % EXPLAINED == 0:
                self.explain_all(query, [hit.image_id for hit in hits])

    def explain(self, query: str, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score for a text; see `Explainer.explain`."""
        return self.explain_all(query, [image_id], substitute=substitute)[0]

    def explain_all(
        self, query: str | Mapping[str, int], image_ids: Sequence[str], *, substitute: bool = True
    ) -> list[Explanation]:
        """Explain many images' scores; see `Explainer.explain_all`."""
        if isinstance(query, str):
            terms = terms_of_words(self._reader.words(query, substitute))
        else:
            terms = terms_of_counts(query)
        documents = [self._document(image_id) for image_id in image_ids]
        impacts = self._finder.impacts(documents, [term.term for term in terms])
        ids = np.array([self._term_ids[term.term] for term in terms], np.int64)
        packed = self.index.packed_groundings(self._in_lucene(image_ids, documents))
        winners = self.index.winners(packed, ids, impacts > 0, self._tokenizer.vocabulary)
        return explanations(image_ids, terms, impacts, winners)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self._finder.stored(self._document(image_id)).metadata

    def _document(self, image_id: str) -> int:
        document = self._finder.document(image_id)
        if document is None:
            raise UnknownImageError(image_id)
        return document

    def _numbered(self) -> StoredDocuments:
        """The images by the document numbers of the finder."""
        return self.index

    def _in_lucene(self, image_ids: Sequence[str], documents: Sequence[int]) -> Sequence[int]:
        """Lucene's numbers of some documents of the finder."""
        return documents

    def __len__(self) -> int:
        return self._images

    def close(self) -> None:
        """Close the index's files."""
        self.index.close()


def open_lucene(folder: Path, manifest: Manifest) -> LuceneIndex:
    """Open the Lucene index of an index folder, as far as that is quick checked for damage.

    Raises:
        InputError: if it is damaged, or its images are not those of the manifest.
    """
    if not manifest.live:
        check_small_index(folder / LUCENE)
    index = LuceneIndex(folder / LUCENE)
    try:
        if manifest.live:
            check_small_index(folder / LUCENE, index.files)
        elif len(index) != manifest.images:
            raise InputError(
                f"{folder}: the manifest counts {manifest.images} images, Lucene {len(index)}; "
                "build the index again"
            )
    except InputError:
        index.close()  # Java would keep its files
        raise
    return index

"""Searches an index folder with Lucene; needs neither torch nor transformers."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import UNKNOWN, Winner
from indexer.manifest import Manifest
from indexer.parts import LUCENE, check_small_parts
from indexer.query.parse import parsed, searchable
from indexer.query.query import Query
from indexer.search.api import (
    Allowed,
    Condition,
    Explanation,
    Hit,
    Matching,
    ReplacedError,
    SearchResult,
    SimilarResult,
    TermExplanation,
    Timings,
    UnknownImageError,
    ids_of,
)
from indexer.search.terms.counted import counted, pairs
from indexer.search.terms.explanations import explanations, terms_of_counts, terms_of_words
from indexer.search.terms.held_terms import HeldTerms
from indexer.search.terms.presence import Presence, words_against
from indexer.search.terms.query_by_image import (
    image_query,
    images_and_words,
    repeated_terms,
    without_documents,
)
from indexer.search.terms.query_reader import QueryReader, Reader, ReadWord
from indexer.search.terms.words import Completion, HeldWord, HeldWords, WordList
from indexer.store.commit import Commit
from indexer.store.images import Stored
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError, first_line
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import WordTables

if TYPE_CHECKING:
    from indexer.fields.kinds import Kind
    from indexer.filters.field_index import FieldIndex
    from indexer.lucene.reader import LuceneIndex
    from indexer.search.browsing import Browsed, Page

WARM_UP_QUERIES = 200
EXPLAINED = 10  # of the warm-up queries, every tenth
READ_AHEAD = 20_000  # images; reading them takes a quarter of a second


class Finder(Protocol):
    """Finds the best documents and their ids."""

    def top(  # noqa: D102
        self, terms: str, k: int, allowed: Allowed | None = None
    ) -> list[tuple[int, float]]: ...
    def document(self, image_id: str) -> int | None: ...  # noqa: D102
    def impacts(  # noqa: D102
        self, documents: Sequence[int], terms: Sequence[str]
    ) -> NDArray[np.int64]: ...
    def term_impacts(self, term: str) -> NDArray[Any]: ...  # noqa: D102
    def largest_impact(self, term: str) -> int: ...  # noqa: D102
    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def stored(self) -> Callable[[int], Stored]: ...  # noqa: D102


class SnapshotFinder:
    """One commit, as searchers ask it.

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
        """The k best documents and their scores."""
        return pairs(*self.images.top(counted(terms, self._term_ids), k, allowed))

    def impacts(self, documents: Sequence[int], terms: Sequence[str]) -> NDArray[np.int64]:
        """The impacts of some documents."""
        return self.images.impacts(documents, [self._term_ids[term] for term in terms])

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """In how many images each term has an impact."""
        return self.images.document_frequencies[list(map(self._term_ids.__getitem__, terms))]

    def term_impacts(self, term: str) -> NDArray[np.uint16]:
        """The impacts of all documents for a term."""
        return self.images.term_impacts(self._term_ids[term])

    def largest_impact(self, term: str) -> int:
        """The largest impact of any image that is not deleted."""
        return self.images.largest_impact(self._term_ids[term])


class LuceneFinder(SnapshotFinder):
    """Finds documents with Lucene, which numbers them as the commit does that it is of.

    That commit is a single segment, as an index is built and `sparta merge` makes it.
    """

    def __init__(self, images: Snapshot, term_ids: dict[str, int], lucene: LuceneIndex) -> None:
        super().__init__(images, term_ids)
        self._lucene = lucene

    def top(self, terms: str, k: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The k best documents and their scores."""
        return self._lucene.top(terms, k, allowed)


class LuceneSearcher:
    """Sums the impacts of a query's word pieces in Lucene (equation 15 on integers).

    Attributes:
        manifest: of the index folder.
        tokenizer: of the index.
        commit: the state of a live index that is searched.
        quick: whether a search takes at most a millisecond, for any number of images.
        engine: its name, as `--engine` takes it.
        reopen: opens what has taken the place of the index.

    Args:
        folder: an index folder made by `sparta index`.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = False
    engine = "lucene"

    def __init__(self, folder: str | Path) -> None:
        self._folder = folder = Path(folder)
        self.reopen: Callable[[], LuceneSearcher] = partial(type(self), folder)
        self.manifest = Manifest.open(folder)
        check_small_parts(folder, self.manifest.parts)
        self.tokenizer = WordPieceTokenizer.from_folder(folder)
        self.manifest.check_vocabulary(folder, self.tokenizer.vocabulary_hash)
        self._tables = WordTables.reading(folder)
        self._term_ids = self.tokenizer.ids
        self._fields: FieldIndex | None = None
        self._open()

    def _open(self) -> None:
        """Open the engine."""
        from indexer.lucene.reader import open_lucene

        self._show(Snapshot.open(self._folder))
        self._lucene = open_lucene(self._folder, self.commit)
        self._finder: Finder = LuceneFinder(self.snapshot, self._term_ids, self._lucene)

    def _show(self, images: Snapshot) -> None:
        """Answer from a commit."""
        self.snapshot, self.commit = images, images.commit
        self._finder, self._images = SnapshotFinder(images, self._term_ids), len(images)
        self._forget()

    def _forget(self) -> None:
        """Forget what was made for a former commit."""
        self._fields = None
        for former in ("presence", "_holds", "_reader", "_held_words"):
            vars(self).pop(former, None)

    def refreshed(self) -> LuceneSearcher | None:
        """A searcher of the newest commit, None if this one is; see `Follower.refreshed`."""
        try:
            return self.continued()
        except ReplacedError:
            return self.reopen()

    def continued(self) -> LuceneSearcher | None:
        """A searcher of a commit that continues this one; see `Follower.continued`."""
        return None

    def _check_continued(self, commit: Commit) -> None:
        """Check that what was read of this index is true of another commit.

        Raises:
            ReplacedError: if not.
        """
        if not commit.continues(self.commit) or Manifest.read(self._folder) != self.manifest:
            raise ReplacedError(f"{self._folder} is another index by now: open it again")

    @property
    def finder(self) -> Finder:
        """The engine, at this commit."""
        return self._finder

    def with_finder(self, finder: Finder) -> Self:
        """The same images, found by another engine; queries are read as they are by this one."""
        other = copy(self)
        other._holds, other._reader, other.presence = self._holds, self._reader, self.presence
        other._finder = finder
        return other

    def _keep_held_terms(self, former: LuceneSearcher) -> None:
        """Look up again only those terms of a former commit that may have come or gone."""
        from indexer.store.log import read_changes

        since = read_changes(self._folder, former.commit.log, former.commit.bytes, self.commit)
        try:
            holds = former._holds.after(since, self._find_image, self.tokenizer.vocabulary)
        except InputError:
            return  # the log has gone
        reader = former._reader.with_held(holds)
        # After the reader was copied, so that all that its parts rely on is compared.
        if former._holds.agrees(holds):
            self._holds, self._reader = holds, reader

    @cached_property
    def _holds(self) -> HeldTerms:
        return HeldTerms(self._find_image)

    @property
    def _find_image(self) -> Callable[[str], str | None]:
        # Without a reference to this object: in a circle it would outlive its commit.
        return partial(_find_image, self._finder, self._term_ids)

    @cached_property
    def _reader(self) -> QueryReader:
        largest = 2**self.manifest.bits - 1
        return QueryReader(self.tokenizer, self._tables, self._holds, largest)

    def holds(self, term: str) -> bool:
        """Whether some image has a term."""
        return self._holds(term)

    def among(
        self, reader: Reader, largest: Mapping[str, int], kinds: Mapping[str, Kind] | None = None
    ) -> Self:
        """This searcher for queries that were read for a larger index, of which its is a part.

        Args:
            reader: gives what was read.
            largest: impacts of any image of the whole index, as far as the queries need them.
            kinds: of the fields of the whole index; None where the queries need no fields.
        """
        part = copy(self)
        vars(part)["_reader"] = reader
        part.presence = self.presence.among(largest)
        if kinds is not None:
            part._fields = self.field_index().among(kinds)
        return part

    @cached_property
    def presence(self) -> Presence:
        """Decides which images have a word."""
        return Presence(self._finder, self._documents)

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k best images for a text; see `Searcher.search`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        query = searchable(query)
        read = self._reader.read(query, substitute)
        tokenised = time.perf_counter()
        conditions: list[Condition] = []
        if read.signed:
            allowed, conditions = self.presence.apply(read.signed, allowed)
        words = [] if min_coverage is None else self._reader.words(query, substitute)
        if min_coverage:
            allowed = self.presence.covering(words, min_coverage, allowed)
        found = self._finder.top(read.terms, k, allowed)
        hits = self.hits(found)
        if words:
            self._add_coverage(hits, [document for document, _ in found], words)
        end = time.perf_counter()
        return SearchResult(
            hits,
            read.unknown,
            Timings(*(1000 * t for t in (tokenised - start, end - tokenised, end - start))),
            rare=read.rare,
            substitutions=read.substitutions,
            conditions=conditions,
        )

    def matching(
        self,
        query: str | Query,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> Matching:
        """All documents that `search` finds with k large enough."""
        query = searchable(query)
        read = self._reader.read(query, substitute)
        allowed, conditions = self.presence.apply(read.signed, allowed)
        if min_coverage:
            words = self._reader.words(query, substitute)
            allowed = self.presence.covering(words, min_coverage, allowed)
        scores = self._scores(read.terms)
        if allowed is not None:
            scores[~allowed] = 0
        return Matching(scores, read.unknown, read.rare, read.substitutions, conditions)

    def _scores(self, terms: str) -> NDArray[np.float64]:
        """[N] the scores of all documents for some terms, 0 for those that share none."""
        scores = np.zeros(self._documents)
        if self.quick:
            for term, count in Counter(terms.split()).items():
                scores += np.multiply(self._finder.term_impacts(term), count, dtype=np.float64)
        elif found := self._finder.top(terms, max(1, self._documents)):
            documents, values = zip(*found, strict=True)
            scores[list(documents)] = values
        return scores

    def browse(
        self,
        query: str,
        page: Page,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> Browsed:
        """A page of all images that match; see `Browsable`."""
        from indexer.search.browsing import browse  # which a search by score does not need

        return browse(
            self, query, page, substitute=substitute, allowed=allowed, min_coverage=min_coverage
        )

    def ids(self, allowed: Allowed) -> list[str]:
        """The ids of the documents that a filter lets through; see `Browsable`."""
        return [self.image_id(document) for document in np.flatnonzero(allowed).tolist()]

    def field_index(self) -> FieldIndex:
        """The typed fields of the images; opened by the first call.

        Raises:
            InputError: if they are damaged.
        """
        if self._fields is None:
            self._fields = self._open_fields()
        return self._fields

    def image_id(self, document: int) -> str:
        """The id of a document, for as many as were read last without reading again."""
        return self._finder.stored(document).image_id

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        """The k images most similar to indexed ones; see `Searcher.similar`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        ids = ids_of(image_id)
        documents = [self._document(one) for one in ids]
        asked = self._reader.read(parsed(words), substitute=True)
        spoken = filter(self._holds, asked.terms.split())
        query = images_and_words(self._impacts_of(documents), spoken)
        read = time.perf_counter()
        allowed, conditions = self.presence.apply(asked.signed, allowed)
        found = self._finder.top(repeated_terms(query), k + len(documents), allowed)
        hits = self.hits(without_documents(found, documents, k))
        end = time.perf_counter()
        timings = Timings(*(1000 * t for t in (read - start, end - read, end - start)))
        return SimilarResult(
            hits,
            asked.unknown,
            timings,
            query,
            rare=asked.rare,
            substitutions=asked.substitutions,
            conditions=conditions,
        )

    def image_terms(self, image_id: str) -> dict[str, int]:
        """The terms of an image with their impacts, by ascending term id.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        return self._impacts_of([self._document(image_id)])

    def word_frequencies(self) -> NDArray[np.int64]:
        """[W] in how many images each word of its list has an impact; see `HeldWords`."""
        return self._finder.document_frequencies(self._words.words)

    def similar_to(
        self, impacts: Mapping[str, int], k: int = 10, *, allowed: Allowed | None = None
    ) -> SimilarResult:
        """The k images most similar to one with these impacts; see `PhotoSearcher`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        query = image_query({term: n for term, n in impacts.items() if self._holds(term)})
        read = time.perf_counter()
        found = self._finder.top(repeated_terms(query), k, allowed) if query else []
        hits = self.hits(found)
        end = time.perf_counter()
        timings = Timings(*(1000 * t for t in (read - start, end - read, end - start)))
        return SimilarResult(hits, [], timings, query)

    def _impacts_of(self, documents: Sequence[int]) -> dict[str, int]:
        """The impacts of some images, added."""
        held = chain.from_iterable(map(self._held_by, documents))
        terms = [self.tokenizer.vocabulary[i] for i in dict.fromkeys(held)]
        added = self._finder.impacts(documents, terms).sum(axis=0)
        return dict(zip(terms, added.tolist(), strict=True))

    def _held_by(self, document: int) -> list[int]:
        """The terms of an image, rising."""
        terms: list[int] = self.snapshot.terms_of(document).tolist()
        return terms

    def _add_coverage(
        self, hits: Sequence[Hit], documents: Sequence[int], words: Sequence[ReadWord]
    ) -> None:
        terms = list(dict.fromkeys(term for word in words for term in word.terms))
        had = self.presence.had(words, terms, self._finder.impacts(documents, terms))
        for hit, coverage in zip(hits, self.presence.coverages(words, had), strict=True):
            hit.coverage = coverage

    def hits(self, found: Iterable[tuple[int, float]], first: int = 1) -> list[Hit]:
        """The hits of documents with their scores, the first of which has this rank."""
        stored, hits = self._finder.stored, []
        for rank, (document, score) in enumerate(found, start=first):
            image_id, metadata = stored(document)
            hits.append(Hit(rank, image_id, score, metadata))
        return hits

    @cached_property
    def _words(self) -> WordList:
        return WordList(self.tokenizer.vocabulary)  # for every commit

    @cached_property
    def _held_words(self) -> HeldWords:
        return HeldWords(self._words, self.word_frequencies(), self._holds)

    def complete(self, text: str, most: int = 10) -> list[Completion]:
        """Queries whose last word is one of the index; see `Suggester.complete`."""
        return self._held_words.complete(text, most)

    def correct(self, word: str, most: int = 3) -> list[HeldWord]:
        """The words of the index nearest to one; see `Suggester.correct`."""
        return self._held_words.correct(word, most)

    def warm_up(self) -> None:
        """Do once what the first searches, suggestions, filters and explanations would wait for.

        Afterwards the hits of a small index are cached, and Java has compiled the query path.
        """
        for document in range(min(len(self), READ_AHEAD)):
            self._finder.stored(document)
        self._warm_up_searching()
        for query in self._queries(range(WARM_UP_QUERIES)):
            self.search(query)
        self._warm_up_explaining()

    def _warm_up_searching(self) -> None:
        self.complete("a")
        everything = np.ones(self._documents, np.bool_)
        everything.flags.writeable = False  # as what filters let through
        for query in self._queries(range(1)):
            self.search(query, allowed=everything)

    def _warm_up_explaining(self) -> None:
        """Explain the hits of some queries."""
        for query in self._queries(range(0, WARM_UP_QUERIES, EXPLAINED)):
            self.explain_all(query, [hit.image_id for hit in self.search(query).hits])

    def _queries(self, numbers: Iterable[int]) -> Iterator[str]:
        """Some of the queries that are made of words of the vocabulary."""
        words = [term for term in self.tokenizer.vocabulary if term.isalpha()]
        for number in numbers:
            yield " ".join(words[number::WARM_UP_QUERIES][:10])

    def prepare_explaining(self) -> None:
        """Start in a thread what explains hits; see `Preparable`. Lucene is what searches here."""

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score for a text; see `Explainer.explain`."""
        return self.explain_all(query, [image_id], substitute=substitute)[0]

    def explain_all(
        self,
        query: str | Query | Mapping[str, int],
        image_ids: Sequence[str],
        *,
        substitute: bool = True,
        grounded: bool = True,
    ) -> list[Explanation]:
        """Explain many images' scores; see `Explainer.explain_all`."""
        words, terms = self.terms_of(query, substitute)
        documents = [self._document(image_id) for image_id in image_ids]
        impacts = self._finder.impacts(documents, [term.term for term in terms])
        packed = self.packed_groundings(image_ids) if grounded else None
        return self.explained(image_ids, words, terms, impacts, packed)

    def packed_groundings(self, image_ids: Sequence[str]) -> list[bytes]:
        """The groundings of some images, as `indexer.grounding.pack` returns them.

        Raises:
            UnknownImageError: if the index lacks one.
        """
        return self.snapshot.groundings(map(self._document, image_ids))

    def terms_of(
        self, query: str | Query | Mapping[str, int], substitute: bool
    ) -> tuple[list[ReadWord], list[TermExplanation]]:
        """The words of a text and its terms, without an image; terms with counts have no words."""
        if not isinstance(query, str | Query):
            return [], terms_of_counts(query)
        words = self._reader.words(parsed(query), substitute)
        return words, terms_of_words(words)

    def explained(
        self,
        image_ids: Sequence[str],
        words: Sequence[ReadWord],
        terms: Sequence[TermExplanation],
        impacts: NDArray[np.int64],
        packed: Sequence[bytes] | None,
    ) -> list[Explanation]:
        """Explain the scores of images by what is stored of them.

        Args:
            image_ids: [d] of the images.
            words: as `terms_of` returns them.
            terms: [m] likewise.
            impacts: [d, m] of the images.
            packed: [d] their groundings, packed; None for explanations without.
        """
        if packed is None:
            winners = [UNKNOWN] * np.count_nonzero(impacts)
        else:
            ids = np.array([self._term_ids[term.term] for term in terms], np.int64)
            winners = self._winners(packed, ids, impacts > 0)
        found = explanations(image_ids, terms, impacts, winners)
        if words:
            had = self.presence.had(words, [term.term for term in terms], impacts)
            for one, coverage in zip(found, self.presence.coverages(words, had), strict=True):
                one.coverage = coverage
            for one, against in zip(found, words_against(words, had), strict=True):
                one.against = against
        return found

    def _winners(
        self, packed: Sequence[bytes], terms: NDArray[np.int64], wanted: NDArray[np.bool_]
    ) -> list[Winner]:
        """What won some terms of packed groundings; see `indexer.grounding.winners`."""
        # A search without explanations does not need it.
        from indexer.grounding import winners

        try:
            return winners(packed, terms, wanted, self.tokenizer.vocabulary)
        except (ValueError, IndexError, struct.error) as error:
            raise InputError(
                f"{self._folder / LUCENE} is damaged ({first_line(error)}): build the index again"
            ) from error

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self._finder.stored(self._document(image_id)).metadata

    def _document(self, image_id: str) -> int:
        document = self._finder.document(image_id)
        if document is None:
            raise UnknownImageError(image_id)
        return document

    @property
    def images(self) -> SnapshotFinder:
        """The images as dense searchers take them, by the document numbers of the finder."""
        return SnapshotFinder(self.snapshot, self._term_ids)

    def _open_fields(self) -> FieldIndex:
        return self.snapshot.field_index()

    @property
    def _documents(self) -> int:
        """How many document numbers the finder has."""
        return self.snapshot.documents

    def __len__(self) -> int:
        return self._images

    def close(self) -> None:
        """Close the index's files."""
        self._lucene.close()


def _find_image(finder: Finder, term_ids: Mapping[str, int], term: str) -> str | None:
    """The id of an image that has a term, None if no image has it."""
    found = finder.top(term, 1) if term in term_ids else []
    return finder.stored(found[0][0]).image_id if found else None

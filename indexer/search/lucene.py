"""Searches an index folder with Lucene; needs neither torch nor transformers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from indexer.lucene.integrity import check_small_index
from indexer.lucene.reader import LuceneIndex, Stored
from indexer.manifest import Manifest
from indexer.parts import LUCENE, check_small_parts
from indexer.search.api import (
    Explanation,
    Hit,
    SearchResult,
    SimilarResult,
    TermExplanation,
    Timings,
    UnknownImageError,
)
from indexer.search.query_by_image import image_query, repeated_terms, without_document
from indexer.search.query_reader import QueryReader
from sparta.errors import InputError
from sparta.substitutes import SubstituteTable
from sparta.tokenizer import WordPieceTokenizer

WARM_UP_QUERIES = 200
READ_AHEAD = 20_000  # images; reading them takes a quarter of a second


class Finder(Protocol):
    """Finds the best documents and their ids: a `LuceneIndex`, or columns in memory."""

    def top(self, terms: str, k: int) -> list[tuple[int, float]]: ...  # noqa: D102
    def impacts(self, document: int, terms: Sequence[str]) -> list[int]: ...  # noqa: D102
    @property
    def stored(self) -> Callable[[int], Stored]: ...  # noqa: D102


class _Source(NamedTuple):
    """The word of a query that a term comes from; the similarity if it is a substitute."""

    word: str
    similarity: float | None = None


class LuceneSearcher:
    """Sums the impacts of a query's word pieces in Lucene (equation 15 on integers).

    Attributes:
        manifest: of the index folder.
        index: the Lucene index, with ids and metadata of the images.
        quick: whether a search takes at most a millisecond, for any number of images.

    Args:
        folder: an index folder made by `sparta index`.

    Raises:
        InputError: if the folder is not an index, has another format, or is damaged.
    """

    quick = False

    def __init__(self, folder: str | Path) -> None:
        folder = Path(folder)
        self.manifest = Manifest.open(folder)
        check_small_parts(folder, self.manifest.parts)
        check_small_index(folder / LUCENE)
        self._tokenizer = WordPieceTokenizer.from_folder(folder)
        self.manifest.check_vocabulary(folder, self._tokenizer.vocabulary_hash)
        self.index = LuceneIndex(folder / LUCENE)
        if len(self.index) != self.manifest.images:
            raise InputError(
                f"{folder}: the manifest counts {self.manifest.images} images, Lucene "
                f"{len(self.index)}; build the index again"
            )
        self._finder: Finder = self.index
        table = SubstituteTable.open(folder)
        self._reader = QueryReader(self._tokenizer, table, self.index.document_frequency)
        self._term_ids = {term: i for i, term in enumerate(self._tokenizer.vocabulary)}

    def search(self, query: str, k: int = 10, *, substitute: bool = True) -> SearchResult:
        """The k best images for a text; see `Searcher.search`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        read = self._reader.read(query, substitute)
        tokenised = time.perf_counter()
        hits = self._hits(self._finder.top(read.terms, k))
        end = time.perf_counter()
        tokenise, search = 1000 * (tokenised - start), 1000 * (end - tokenised)
        timings = Timings(tokenise, search, tokenise + search)
        return SearchResult(hits, read.unknown, timings, substitutions=read.substitutions)

    def similar(self, image_id: str, k: int = 10) -> SimilarResult:
        """The k images most similar to an indexed one; see `Searcher.similar`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        document = self._document(image_id)
        terms = [self._tokenizer.vocabulary[i] for i in self.index.grounding(document).terms]
        impacts = self._finder.impacts(document, terms)
        query = image_query(dict(zip(terms, impacts, strict=True)))
        read = time.perf_counter()
        hits = self._hits(
            without_document(self._finder.top(repeated_terms(query), k + 1), document, k)
        )
        end = time.perf_counter()
        timings = Timings(*(1000 * t for t in (read - start, end - read, end - start)))
        return SimilarResult(hits, [], timings, query)

    def _hits(self, found: Iterable[tuple[int, float]]) -> list[Hit]:
        hits = []
        for rank, (document, score) in enumerate(found, start=1):
            image_id, metadata = self._finder.stored(document)
            hits.append(Hit(rank, image_id, score, metadata))
        return hits

    def warm_up(self) -> None:
        """Answer some queries, read the ids of some images, and tokenise all whole words.

        Afterwards Java has compiled the query path, the hits of a small index are cached, and so
        are most words of a query.
        """
        for document in range(min(len(self), READ_AHEAD)):
            self._finder.stored(document)
        words = [term for term in self._tokenizer.vocabulary if term.isalpha()]
        for word in words:
            self._reader.read(word, substitute=True)
        for start in range(WARM_UP_QUERIES):
            self.search(" ".join(words[start::WARM_UP_QUERIES][:10]))

    def explain(self, query: str, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score for a text; see `Explainer.explain`."""
        words = self._reader.words(query, substitute)
        counts = Counter(term for word in words for term in word.terms)
        # A term's source is the first word that contains it, else the first that it replaces.
        ordered = sorted(words, key=lambda word: word.substitution is not None)
        sources = {
            term: _Source(word.text, word.substitution.similarity if word.substitution else None)
            for word in reversed(ordered)
            for term in word.terms
        }
        return self._explain(counts, sources, image_id)

    def explain_terms(self, terms: Mapping[str, int], image_id: str) -> Explanation:
        """Explain one image's score for some terms; see `Explainer.explain_terms`."""
        return self._explain(terms, {term: _Source(term) for term in terms}, image_id)

    def _explain(
        self, counts: Mapping[str, int], sources: Mapping[str, _Source], image_id: str
    ) -> Explanation:
        document = self._document(image_id)
        grounding = self.index.grounding(document)
        terms = []
        for term, impact in zip(counts, self._finder.impacts(document, [*counts]), strict=True):
            winner = grounding.winner(self._term_ids[term], self._tokenizer.vocabulary)
            (word, similarity), count = sources[term], counts[term]
            found = (word, count, impact, float(count * impact), *winner, similarity)
            terms.append(TermExplanation(term, *found))
        return Explanation(image_id, sum(term.score for term in terms), terms)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self.index.stored(self._document(image_id)).metadata

    def _document(self, image_id: str) -> int:
        document = self.index.document(image_id)
        if document is None:
            raise UnknownImageError(image_id)
        return document

    def __len__(self) -> int:
        return self.manifest.images

    def close(self) -> None:
        """Close the index's files."""
        self.index.close()

"""Searches an index folder with Lucene; needs neither torch nor transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from indexer.lucene.reader import LuceneIndex, Stored
from indexer.manifest import LUCENE, Manifest
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
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer

PART_CACHE = 50_000  # parts of queries, mostly words, whose terms are cached
WARM_UP_QUERIES = 200
READ_AHEAD = 20_000  # images; reading them takes a quarter of a second


class Finder(Protocol):
    """Finds the best documents and their ids: a `LuceneIndex`, or columns in memory."""

    def top(self, terms: str, k: int) -> list[tuple[int, float]]: ...  # noqa: D102
    def impacts(self, document: int, terms: Sequence[str]) -> list[int]: ...  # noqa: D102
    @property
    def stored(self) -> Callable[[int], Stored]: ...  # noqa: D102


class _Part(NamedTuple):
    """The terms and unknown words of the text between two spaces of a query."""

    terms: str
    unknown: list[str]


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
        self._tokenizer = WordPieceTokenizer.from_folder(folder)
        self.manifest.check_vocabulary(folder, self._tokenizer.vocabulary_hash)
        self.index = LuceneIndex(folder / LUCENE)
        if len(self.index) != self.manifest.images:
            raise InputError(
                f"{folder}: the manifest counts {self.manifest.images} images, Lucene "
                f"{len(self.index)}; build the index again"
            )
        self._finder: Finder = self.index
        self._parts: dict[str, _Part] = {}
        self._term_ids = {term: i for i, term in enumerate(self._tokenizer.vocabulary)}

    def search(self, query: str, k: int = 10) -> SearchResult:
        """The k best images for a text; see `Searcher.search`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        start = time.perf_counter()
        parts = [self._parts.get(part) or self._part(part) for part in self._tokenizer.parts(query)]
        terms = " ".join([part.terms for part in parts])
        unknown = list(dict.fromkeys([word for part in parts for word in part.unknown]))
        tokenised = time.perf_counter()
        hits = self._hits(self._finder.top(terms, k))
        end = time.perf_counter()
        tokenise, search = 1000 * (tokenised - start), 1000 * (end - tokenised)
        return SearchResult(hits, unknown, Timings(tokenise, search, tokenise + search))

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
            self._part(word)
        for start in range(WARM_UP_QUERIES):
            self.search(" ".join(words[start::WARM_UP_QUERIES][:10]))

    def _part(self, text: str) -> _Part:
        """Tokenise a part and cache it; a full cache is emptied, as tracking use costs more."""
        parsed = self._tokenizer.encode_query(text)
        unknown = [
            word.text
            for word in parsed.words
            if not any(self.index.document_frequency(piece) for piece in word.pieces)
        ]
        if len(self._parts) >= PART_CACHE:
            self._parts.clear()
        part = self._parts[text] = _Part(" ".join(parsed.pieces), unknown)
        return part

    def explain(self, query: str, image_id: str) -> Explanation:
        """Explain one image's score for a text; see `Searcher.explain`."""
        parsed = self._tokenizer.encode_query(query)
        words = {piece: word.text for word in reversed(parsed.words) for piece in word.pieces}
        return self._explain(parsed.terms, words, image_id)

    def explain_terms(self, terms: Mapping[str, int], image_id: str) -> Explanation:
        """Explain one image's score for some terms; see `Searcher.explain_terms`."""
        return self._explain(terms, {term: term for term in terms}, image_id)

    def _explain(
        self, counts: Mapping[str, int], words: Mapping[str, str], image_id: str
    ) -> Explanation:
        document = self._document(image_id)
        grounding = self.index.grounding(document)
        terms = []
        for term, impact in zip(counts, self._finder.impacts(document, [*counts]), strict=True):
            winner = grounding.winner(self._term_ids[term], self._tokenizer.vocabulary)
            score = float(counts[term] * impact)
            terms.append(TermExplanation(term, words[term], counts[term], impact, score, *winner))
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

"""What every engine takes: a collection of impacts on disk, and tokenised queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer

MOST_QUERIES = 5_000  # as many as the paper asks
READ = 10_000  # images in memory at once
HEADER = "corpus.json"
STARTS, TERMS, IMPACTS = "starts.npy", "terms.bin", "impacts.bin"


@dataclass(frozen=True)
class CorpusRows:
    """Postings of some images end to end; image i's are `starts[i]:starts[i + 1]`."""

    starts: NDArray[np.int64]  # [images + 1] int64
    terms: NDArray[np.int32]  # [postings] int32, rising within an image
    impacts: NDArray[np.int32]  # [postings] int32, at least 1

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Corpus:
    """A collection on disk, memory-mapped: 3 bytes a posting at 8 bits."""

    folder: Path  # of the files
    vocabulary: list[str]  # [V] terms in id order
    images: int  # count
    postings: int  # count
    bits: int  # of an impact

    @classmethod
    def write(
        cls, folder: Path, vocabulary: list[str], bits: int, chunks: Iterable[CorpusRows]
    ) -> Corpus:
        """Write rows as they come; the header, written last, says that all are there."""
        folder.mkdir(parents=True, exist_ok=True)
        term, impact = _types(len(vocabulary), bits)
        lengths = [np.zeros(1, np.int64)]
        with ExitStack() as files:
            terms, impacts = (
                files.enter_context((folder / name).open("wb")) for name in (TERMS, IMPACTS)
            )
            for rows in chunks:
                rows.terms.astype(term).tofile(terms)
                rows.impacts.astype(impact).tofile(impacts)
                lengths.append(np.diff(rows.starts))
        starts = np.cumsum(np.concatenate(lengths))
        np.save(folder / STARTS, starts)
        made = cls(folder, vocabulary, len(starts) - 1, int(starts[-1]), bits)
        header = {key: value for key, value in vars(made).items() if key != "folder"}
        (folder / HEADER).write_text(json.dumps(header), encoding="utf-8")
        return made

    @classmethod
    def open(cls, folder: Path) -> Corpus | None:
        """Open what `write` finished, None if it did not."""
        if not (folder / HEADER).is_file():
            return None
        return cls(folder, **json.loads((folder / HEADER).read_text(encoding="utf-8")))

    def rows(self) -> Iterator[CorpusRows]:
        """All images, `READ` at a time."""
        term, impact = _types(len(self.vocabulary), self.bits)
        starts = np.load(self.folder / STARTS)
        terms, impacts = (
            np.memmap(self.folder / name, dtype, "r", shape=(self.postings,))
            for name, dtype in ((TERMS, term), (IMPACTS, impact))
        )
        for first in range(0, self.images, READ):
            own = starts[first : first + READ + 1]
            part = slice(own[0], own[-1])
            yield CorpusRows(
                own - own[0], terms[part].astype(np.int32), impacts[part].astype(np.int32)
            )


def _types(vocabulary: int, bits: int) -> tuple[type[np.integer], type[np.integer]]:
    """The smallest types of a term id and of an impact."""
    return (
        np.uint16 if vocabulary <= 2**16 else np.uint32,
        np.uint8 if bits <= 8 else np.uint16,
    )


@dataclass(frozen=True)
class TermQuery:
    """One query, tokenised."""

    number: int  # its row in the vectors of dense models
    text: str  # as typed
    pieces: str  # its word pieces with a blank between, as Lucene takes them
    terms: dict[int, int]  # term id → how often it occurs


def read_queries(path: Path) -> list[str]:
    """A file's distinct lines that are not blank.

    Raises:
        InputError: if it is not UTF-8 text.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
    return [line for line in dict.fromkeys(lines) if line.strip()]


def tokenise(texts: Sequence[str], tokenizer: WordPieceTokenizer) -> list[TermQuery]:
    """Texts as queries, numbered in their order; some may have no word piece of the index.

    Args:
        texts: of the queries.
        tokenizer: of the index.
    """
    ids = {term: number for number, term in enumerate(tokenizer.vocabulary)}
    found = []
    for number, text in enumerate(texts):
        parsed = tokenizer.encode_query(text)
        terms = {ids[term]: count for term, count in parsed.terms.items()}
        found.append(TermQuery(number, text, " ".join(parsed.pieces), terms))
    return found


def choose_queries(queries: Sequence[TermQuery], limit: int = MOST_QUERIES) -> list[TermQuery]:
    """Some queries that have a word piece of the index, in random order (seed 0).

    A file has the captions of one photo together; in that order, each would find the postings of
    the one before in the processor's cache.

    Raises:
        InputError: if fewer than two are left.
    """
    order = np.random.default_rng(0).permutation(len(queries))
    chosen = [queries[place] for place in order if queries[place].terms][:limit]
    if len(chosen) < 2:
        raise InputError(f"{len(chosen)} queries with a word of the index: give at least two")
    return [replace(query, number=number) for number, query in enumerate(chosen)]

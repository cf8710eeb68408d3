"""Spools postings image by image in files while an index is built."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

TERMS, IMPACTS = "terms", "impacts"


class Chunk(Protocol):
    """Rows of some images end to end, as `Postings` has them; image i's are starts[i:i + 2]."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """[n + 1]."""

    @property
    def terms(self) -> NDArray[Any]:
        """[P] vocabulary ids."""

    @property
    def impacts(self) -> NDArray[Any]:
        """[P], at least 1."""


class PostingRows(NamedTuple):
    """The postings of some images in memory.

    Attributes:
        starts: [n + 1] int64.
        terms: [P] uint16 or uint32.
        impacts: [P] uint8 or uint16.
    """

    starts: NDArray[np.int64]
    terms: NDArray[Any]
    impacts: NDArray[Any]


@dataclass(frozen=True)
class SpooledRows:
    """The postings of all images in files, of which some images' are read at a time.

    Mapped instead, they would all count as memory of this process once they were read.

    Attributes:
        firsts: [N] int64, where the postings of each image begin.
        lengths: [N] int64, how many it has.
        frequencies: [V] int64, how many images have each term.
        terms: file of [P] vocabulary ids, `term_type`.
        impacts: file of [P].
        impact: their type.
    """

    firsts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    frequencies: NDArray[np.int64]
    terms: Path
    impacts: Path
    impact: np.dtype[Any]

    def __len__(self) -> int:
        """Number of images."""
        return len(self.firsts)

    def picked(self, images: NDArray[np.integer]) -> SpooledRows:
        """The images with these numbers, in their order; all others must have no postings."""
        return replace(self, firsts=self.firsts[images], lengths=self.lengths[images])

    def take(self, images: NDArray[np.integer]) -> PostingRows:
        """Read the postings of n images into memory, in the order of these [n] numbers."""
        firsts, lengths = self.firsts[images], self.lengths[images]
        term = term_type(len(self.frequencies))
        return PostingRows(
            np.concatenate([[0], np.cumsum(lengths)]),
            _read(self.terms, term, firsts, lengths),
            _read(self.impacts, self.impact, firsts, lengths),
        )


def _read(
    path: Path, dtype: np.dtype[Any], firsts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[Any]:
    """Read parts of a file of numbers, given by their first numbers and lengths, end to end."""
    places = zip(
        (firsts * dtype.itemsize).tolist(), (lengths * dtype.itemsize).tolist(), strict=True
    )
    with path.open("rb", buffering=0) as file:
        number = file.fileno()
        parts = [os.pread(number, size, first) for first, size in places]
    return np.frombuffer(bytearray().join(parts), dtype)


def term_type(vocabulary: int) -> np.dtype[Any]:
    """The smallest type that holds every term id."""
    return np.dtype(np.uint16 if vocabulary <= 2**16 else np.uint32)


def impact_type(bits: int) -> np.dtype[Any]:
    """The smallest type that holds impacts of at most 16 bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16)


class RowFiles:
    """Appends chunks to files, three bytes a posting for most indexes.

    Args:
        folder: of the files; must exist.
        vocabulary: number of terms.
        bits: of an impact, at most 16.

    Attributes:
        totals: [V] int64, the sum of each term's impacts.
    """

    def __init__(self, folder: Path, vocabulary: int, bits: int) -> None:
        self.vocabulary = vocabulary
        self._types = {TERMS: term_type(vocabulary), IMPACTS: impact_type(bits)}
        self._paths = {name: folder / f"{name}.rows" for name in self._types}
        self._files = {name: path.open("wb") for name, path in self._paths.items()}
        self._lengths: list[NDArray[np.int64]] = []
        self._frequencies, self.totals = np.zeros((2, vocabulary), np.int64)

    def add(self, chunk: Chunk) -> None:
        """Append the postings of some images.

        Raises:
            InputError: if a term is not of the vocabulary or an impact has more bits.
        """
        limits = {TERMS: self.vocabulary - 1, IMPACTS: np.iinfo(self._types[IMPACTS]).max}
        given = {TERMS: chunk.terms, IMPACTS: chunk.impacts}
        if any(
            values.min(initial=0) < 0 or values.max(initial=0) > limits[name]
            for name, values in given.items()
        ):
            raise InputError(
                f"terms of the postings must be from 0 to {limits[TERMS]:,}, and impacts from 0 to "
                f"{limits[IMPACTS]:,}"
            )
        self._frequencies += np.bincount(chunk.terms, minlength=self.vocabulary)
        sums = np.bincount(chunk.terms, chunk.impacts, self.vocabulary)  # exact below 2^53
        self.totals += sums.astype(np.int64)
        for name, values in given.items():
            self._files[name].write(values.astype(self._types[name]).data)
        self._lengths.append(np.diff(chunk.starts))

    def rows(self) -> SpooledRows:
        """All postings added, until the files are closed."""
        for file in self._files.values():
            file.flush()
        lengths = np.concatenate([np.empty(0, np.int64), *self._lengths])
        return SpooledRows(
            np.cumsum(lengths) - lengths,
            lengths,
            self._frequencies,
            self._paths[TERMS],
            self._paths[IMPACTS],
            self._types[IMPACTS],
        )

    def close(self) -> None:
        """Close and remove the files."""
        for name, path in self._paths.items():
            self._files[name].close()
            path.unlink()

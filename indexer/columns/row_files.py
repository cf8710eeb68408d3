"""Spools postings image by image in files while an index is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

STARTS, TERMS, IMPACTS = "starts", "terms", "impacts"


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
    """The postings of all images.

    Attributes:
        starts: [N + 1] int64.
        terms: [P] uint16 or uint32.
        impacts: [P] uint8 or uint16.
    """

    starts: NDArray[np.int64]
    terms: NDArray[Any]
    impacts: NDArray[Any]


def term_type(vocabulary: int) -> np.dtype[Any]:
    """The smallest type that holds every term id."""
    return np.dtype(np.uint16 if vocabulary <= 2**16 else np.uint32)


def impact_type(bits: int) -> np.dtype[Any]:
    """The smallest type that holds impacts of at most 16 bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16)


class RowFiles:
    """Appends chunks to files, three bytes a posting for most indexes, and maps them at the end.

    Args:
        folder: of the files; must exist.
        vocabulary: number of terms.
        bits: of an impact, at most 16.
    """

    def __init__(self, folder: Path, vocabulary: int, bits: int) -> None:
        self.vocabulary = vocabulary
        self._types = {
            STARTS: np.dtype(np.int64),
            TERMS: term_type(vocabulary),
            IMPACTS: impact_type(bits),
        }
        self._paths = {name: folder / f"{name}.rows" for name in self._types}
        self._files = {name: path.open("wb") for name, path in self._paths.items()}
        self._files[STARTS].write(bytes(8))
        self._postings = 0

    def add(self, chunk: Chunk) -> None:
        """Append the postings of some images.

        Raises:
            InputError: if a term is not of the vocabulary or an impact has more bits.
        """
        limits = {TERMS: self.vocabulary - 1, IMPACTS: np.iinfo(self._types[IMPACTS]).max}
        for name, limit in limits.items():
            values = getattr(chunk, name)
            if len(values) and not 0 <= values.min() <= values.max() <= limit:
                raise InputError(f"{name} of the postings must be from 0 to {limit:,}")
            self._write(name, values)
        self._write(STARTS, chunk.starts[1:] + self._postings)
        self._postings += len(chunk.terms)

    def _write(self, name: str, values: NDArray[Any]) -> None:
        self._files[name].write(values.astype(self._types[name]).tobytes())

    def rows(self) -> PostingRows:
        """All postings added, mapped from the files."""
        return PostingRows(*(self._map(name) for name in (STARTS, TERMS, IMPACTS)))

    def _map(self, name: str) -> NDArray[Any]:
        self._files[name].flush()
        path, dtype = self._paths[name], self._types[name]
        if not path.stat().st_size:
            return np.empty(0, dtype)
        return np.memmap(path, dtype, mode="r").view(np.ndarray)

    def close(self) -> None:
        """Close and remove the files; mappings remain valid until they are released."""
        for name, path in self._paths.items():
            self._files[name].close()
            path.unlink()

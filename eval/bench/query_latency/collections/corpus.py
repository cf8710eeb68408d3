"""A collection of impacts on disk, image by image: what every sparse engine is built from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEADER = "corpus.json"
STARTS, TERMS, IMPACTS = "starts.npy", "terms.bin", "impacts.bin"
CHUNK = 10_000  # images in memory at once


@dataclass(frozen=True)
class CorpusRows:
    """Postings of some images end to end; image i's are `starts[i]:starts[i + 1]`.

    Attributes:
        starts: [images + 1] int64.
        terms: [postings] int32, rising within an image.
        impacts: [postings] int32, at least 1.
    """

    starts: NDArray[np.int64]
    terms: NDArray[np.int32]
    impacts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Corpus:
    """Such rows of all images, memory-mapped: 3 bytes a posting at 8 bits.

    Attributes:
        folder: of the files.
        vocabulary: [V] terms in id order.
        images: count.
        postings: count.
        bits: of an impact.
    """

    folder: Path
    vocabulary: list[str]
    images: int
    postings: int
    bits: int

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
        """All images, `CHUNK` at a time."""
        term, impact = _types(len(self.vocabulary), self.bits)
        starts = np.load(self.folder / STARTS)
        terms, impacts = (
            np.memmap(self.folder / name, dtype, "r", shape=(self.postings,))
            for name, dtype in ((TERMS, term), (IMPACTS, impact))
        )
        for first in range(0, self.images, CHUNK):
            own = starts[first : first + CHUNK + 1]
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

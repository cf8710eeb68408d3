"""The layout of columns in memory and on disk: plain arrays, one file each."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.manifest import REMEDY
from sparta.errors import InputError, first_line

if TYPE_CHECKING:
    from indexer.postings import Postings

# Images of a superblock: how many of them have a term fits a byte.
SUPERBLOCK = 255
PLACES = 256  # of its images, the last of which stays empty
HALF = PLACES // 2  # bytes of its levels in a dense row, two images a byte
LEVELS = 15
# Smallest part whose images the order keeps together, and of which bitmaps have a level.
BLOCK = 32
BLOCKS = PLACES // BLOCK
TOPS = BLOCKS // 2  # bytes of their levels in a row with a bitmap, two blocks a byte
BITMAP = TOPS + PLACES // 8
# Superblocks of a group: where a row's begin there is summed from one place in memory.
GROUP = 32
PLACE_BITS = 8
PLACE_MASK = 2**PLACE_BITS - 1

# Scores below it are summed in 16 bits: a bound may be twice as large, and some more by rounding.
NARROW = 2**14

# A term in more than the first share of the images becomes a dense row with a level of each image,
# and in more than the second one with a bitmap: what it adds at most is summed without looking at
# places, some ten times faster per posting, for up to four and three bytes a posting against two.
LEVEL_SHARE = 1 / 6
BITMAP_SHARE = 1 / 16
# Bitmaps replace the lists that most of a search would go into. Where rows with levels have more
# than this share of the postings, they decide, and bitmaps' looser bounds cost more than lists.
MOST_IN_LEVELS = 0.4


class Columns(NamedTuple):
    """The postings of N images in S superblocks; rows are terms by falling document frequency.

    The first D of T rows are dense, the others lists of postings. A dense row has the impacts of
    its images, and bounds of them: the first L a level of four bits for each image, the others a
    bit for each image and a level for each block of 32. Images stand in an order of their own, in
    which those alike are neighbours, so that superblocks can be passed over.

    Attributes:
        order: [N] int32, the document at each position.
        row_of: [V] int32, the row of each term of the vocabulary, -1 for terms in no image.
        maxima: [T, S] uint8 or uint16, the largest impact of each row in each superblock.
        bases: [T] int64, where each row begins, in impacts or in postings.
        anchors: [T, G] uint32, where every 32nd superblock begins, from the row's base, for
            G = S // 32 + 1 groups.
        sizes: [T, 32 G] uint8, how many images of each superblock have the term; 0 from
            superblock S on.
        steps: [D] uint16, impacts of a level.
        levels: [L, S, 128] uint8, of the images at two places: of place i in the low four bits of
            byte i, of place 128 + i in the high ones. Level 0 is no posting, level l an impact of
            at most l steps and of more than l - 1.
        bitmaps: [D - L, S, 36] uint8. The first four bytes are levels of the largest impacts of
            two blocks each: of block 2i in the low four bits of byte i, of block 2i + 1 in the high
            ones. The others are the images that have the term: place i is bit i // 32 of byte
            i % 32 of these, so that the bits of a block are at one place of every byte.
        impacts: [P + 256] uint8 or uint16, of dense rows, in each superblock by place, or in the
            order of the bits; the last 256 are 0.
        postings: [Q] uint16 (uint32 for impacts over 8 bits), impact << 8 | place in superblock.
    """

    order: NDArray[np.int32]
    row_of: NDArray[np.int32]
    maxima: NDArray[Any]
    bases: NDArray[np.int64]
    anchors: NDArray[np.uint32]
    sizes: NDArray[np.uint8]
    steps: NDArray[np.uint16]
    levels: NDArray[np.uint8]
    bitmaps: NDArray[np.uint8]
    impacts: NDArray[Any]
    postings: NDArray[Any]

    @property
    def dense(self) -> int:
        """Number of dense rows."""
        return len(self.steps)

    @property
    def frequencies(self) -> NDArray[np.int64]:
        """[T] the images of each row."""
        last: NDArray[np.int64] = self.sizes[:, -GROUP:].sum(axis=1, dtype=np.int64)
        return last + self.anchors[:, -1]

    @classmethod
    def map(cls, folder: Path) -> Columns:
        """Map the files of a folder, read only; raises InputError if one cannot be mapped."""
        # Slices of NumPy's own class for mapped arrays take longer.
        return cls(*(_map(_file(folder, name)).view(np.ndarray) for name in cls._fields))


def _map(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a header is parsed as Python, which fails in many ways
        raise InputError(f"{path} is damaged ({first_line(error)}): {REMEDY}") from error
    return array


def create(folder: Path, name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Make a file of zeros, with its room on the disk: a mapped page without room ends the process.

    Raises OSError if the disk is full.
    """
    path = _file(folder, name)
    np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    reserve(path)


def reserve(path: Path) -> None:
    """Take the room of a file of zeros on the disk; raises OSError if the disk is full."""
    if hasattr(os, "posix_fallocate"):  # macOS lacks it
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def edit(folder: Path, name: str) -> NDArray[Any]:
    """Map a file for writing."""
    array: NDArray[Any] = np.load(_file(folder, name), mmap_mode="r+")
    return array


def save(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write a file whole."""
    np.save(_file(folder, name), values)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


TERMS, IMPACTS = "terms", "impacts"


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


class PostingSpool:
    """Appends postings to files, three bytes a posting for most indexes.

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

    def add(self, chunk: Postings | PostingRows) -> None:
        """Append postings; raises InputError if a term or an impact is out of range."""
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

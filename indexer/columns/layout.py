"""The layout of columns in memory and on disk: plain arrays, one file each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.manifest import REMEDY
from sparta.errors import InputError, first_line

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
        """Map the files of a folder into memory, read only.

        Raises:
            InputError: if a file is damaged so that it cannot be mapped.
        """
        # Slices of NumPy's own class for mapped arrays take longer.
        return cls(*(_map(_file(folder, name)).view(np.ndarray) for name in cls._fields))


def image_count(folder: Path) -> int:
    """Number of images of the columns in a folder.

    Raises:
        InputError: if their file is damaged.
    """
    return len(_map(_file(folder, "order")))


def _map(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a header is parsed as Python, which fails in many ways
        raise InputError(f"{path} is damaged ({first_line(error)}): {REMEDY}") from error
    return array


def create(folder: Path, name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Make a file of zeros, with its room on the disk: a mapped page without room ends the process.

    Raises:
        OSError: if the disk is full.
    """
    path = _file(folder, name)
    np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    reserve(path)


def reserve(path: Path) -> None:
    """Take the room of a file of zeros on the disk.

    Raises:
        OSError: if the disk is full.
    """
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

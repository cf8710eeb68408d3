"""Which of a keyword's distinct words a condition means; upper and lower case are the same."""

from __future__ import annotations

import re
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer.filters.expression import Mode

try:
    from indexer.columns.native import find_piece
except ImportError:
    find_piece = None  # type: ignore[assignment]

MANY = 20_000  # words, which a regular expression at each would take 10 ms
# Classes of a byte, as native.c has them: a sign, a letter or digit, part of a letter not ASCII.
SIGN, LETTER, PART = 0, 1, 2
FOUND, UNDECIDED = 1, 2
_CLASSES = np.array(
    [PART if byte > 127 else LETTER if chr(byte).isalnum() else SIGN for byte in range(256)],
    np.uint8,
)
_PIECE = re.compile(r"[^\W_]+")


def matching(folded: pa.Array, value: str, mode: Mode) -> NDArray[np.bool_]:
    """[W] which words match a value.

    Args:
        folded: [W] words in lower case.
        value: to compare with.
        mode: as a whole, by a run of whole words in it, or by how it begins.
    """
    wanted = cast(str, pc.utf8_lower(pa.scalar(value)).as_py())
    if mode == "value":
        return _flags(pc.equal(folded, wanted))
    if mode == "prefix":
        return _flags(pc.starts_with(folded, wanted))
    return _containing(folded, wanted)


def _containing(folded: pa.Array, wanted: str) -> NDArray[np.bool_]:
    """Which words contain the pieces of `wanted`, one after another.

    The longest piece is looked for in all of them, the expression only where that decides nothing.
    """
    pieces = _PIECE.findall(wanted)
    if not pieces:  # signs alone
        return _flags(pc.match_substring(folded, wanted))
    found, undecided = _having(folded, max(pieces, key=len), len(pieces) > 1)
    run = r"[\W_]+".join(map(re.escape, pieces))
    pattern = re.compile(rf"(?<![^\W_]){run}(?![^\W_])")
    for place in np.flatnonzero(undecided).tolist():
        found[place] = pattern.search(folded[place].as_py()) is not None
    return found


def _having(
    folded: pa.Array, piece: str, several: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words have a piece by itself, and of which others only the expression can say it."""
    if len(folded) < MANY or find_piece is None:
        return np.zeros(len(folded), np.bool_), _flags(pc.match_substring(folded, piece))
    # In C: Arrow takes twice as long, and a regular expression a second for a million.
    _, offsets, data = folded.buffers()
    starts = np.frombuffer(offsets, np.int32)[folded.offset : folded.offset + len(folded) + 1]
    texts = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    found = np.zeros(len(folded), np.uint8)
    find_piece(texts, starts, np.frombuffer(piece.encode(), np.uint8), _CLASSES, found)
    if several:
        return np.zeros(len(folded), np.bool_), found > 0
    return found == FOUND, found == UNDECIDED


def _flags(found: pa.Array) -> NDArray[np.bool_]:
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)

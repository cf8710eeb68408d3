"""Many small chunks in a few files, of which a browser fetches those that it needs.

A pack is a list of files of compressed chunks, and a directory of the chunks' lengths, in pieces
that are fetched by themselves. All numbers are in LEB128: seven bits a byte, the lowest first.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.publish.folder import SiteFolder

PIECE = 4096  # chunks of a piece of the directory
FILE = 2**20  # bytes of a file at most, unless a chunk is larger


def write_pack(
    site: SiteFolder, name: str, chunks: Iterable[bytes], file_bytes: int = FILE
) -> dict[str, Any]:
    """Write a pack.

    Args:
        site: the folder.
        name: of the pack.
        chunks: compressed; an empty one takes no room.
        file_bytes: of a file.

    Returns:
        what the index says about it: its files, each with its first chunk, and its directory with
        the bytes of each piece.
    """
    lengths: list[int] = []
    files: list[tuple[str, int]] = []
    held, first = bytearray(), 0

    def flush() -> None:
        nonlocal first
        if held:
            files.append((site.put_named(f"index/{name}", ".bin", bytes(held)), first))
            held.clear()
        first = len(lengths)

    for chunk in chunks:
        if held and len(held) + len(chunk) > file_bytes:
            flush()
        held += chunk
        lengths.append(len(chunk))
    flush()
    pieces = [
        deflated(leb128(np.array(lengths[start : start + PIECE], np.int64)).tobytes())
        for start in range(0, len(lengths), PIECE)
    ]
    directory = site.put_named(f"index/{name}", ".bin", b"".join(pieces))
    return {"files": files, "directory": directory, "pieces": list(map(len, pieces))}


def deflated(*parts: bytes, repetitive: bool = True) -> bytes:
    """A raw deflate stream of some parts, each with codes of its own.

    Args:
        parts: one after the other.
        repetitive: whether a part repeats itself; numbers that do not are smaller without search
            for repetitions.
    """
    strategy = zlib.Z_DEFAULT_STRATEGY if repetitive else zlib.Z_HUFFMAN_ONLY
    made = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    first = b"".join(made.compress(part) + made.flush(zlib.Z_SYNC_FLUSH) for part in parts[:-1])
    return first + made.compress(parts[-1]) + made.flush()


def leb128(values: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Numbers from 0 to 2^35 - 1, seven bits a byte, the lowest first; the last byte is below 128.

    Args:
        values: [n].
    """
    if values.max(initial=0) < 128:
        return values.astype(np.uint8)
    numbers = values.astype(np.int64)
    lengths = np.ones(len(numbers), np.int64)
    for bits in range(7, 35, 7):
        lengths += numbers >= 1 << bits
    ends = np.cumsum(lengths)
    packed = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    for byte in range(int(lengths.max(initial=0))):
        own = lengths > byte
        goes_on = np.where(lengths[own] > byte + 1, 128, 0)
        packed[ends[own] - lengths[own] + byte] = numbers[own] >> 7 * byte & 127 | goes_on
    return packed

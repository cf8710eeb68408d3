"""What a browser fetches in chunks: lists of postings and records of images, in packs."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import unpack
from server.publish.collection import Collection, Impacts
from server.publish.folder import SiteFolder
from sparta.json_values import Json, JsonMapping, JsonValue
from sparta.progress import Progress

PIECE = 4096  # chunks of a piece of the directory
FILE = 2**20  # bytes of a file at most, unless a chunk is larger
SUPERBLOCK = 256  # images
CHUNK = 4096  # postings, about
IMAGES = 2  # of a chunk: hits are rarely neighbours, and each costs its whole chunk
BUCKET = 256  # ids of a chunk of ids, about
_FNV, _PRIME = 2166136261, 16777619


def write_pack(
    site: SiteFolder, name: str, chunks: Iterable[bytes], file_bytes: int = FILE
) -> Json:
    """Write a pack; returns what the index says about it.

    That is its files, each with its first chunk, and its directory with the bytes of each piece.
    """
    lengths: list[int] = []
    files: list[tuple[str, int]] = []
    held, first = bytearray(), 0

    def flush() -> None:
        nonlocal first
        if held:
            files.append((site.put_named(f"index/{name}", bytes(held)), first))
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
    directory = site.put_named(f"index/{name}", b"".join(pieces))
    return {"files": files, "directory": directory, "pieces": list(map(len, pieces))}


def deflated(*parts: bytes, repetitive: bool = True) -> bytes:
    """A raw deflate stream of some parts, each with codes of its own.

    Numbers that do not repeat themselves are smaller without the search for repetitions.
    """
    strategy = zlib.Z_DEFAULT_STRATEGY if repetitive else zlib.Z_HUFFMAN_ONLY
    made = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    first = b"".join(made.compress(part) + made.flush(zlib.Z_SYNC_FLUSH) for part in parts[:-1])
    return first + made.compress(parts[-1]) + made.flush()


def leb128(values: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Numbers [n] from 0 to 2^35 - 1, seven bits a byte, low ones first; the last byte is < 128."""
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


def as_json(value: JsonValue) -> bytes:
    """As short as JSON can be, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# Lists of postings in chunks: each a part of a long list, or some short ones.
#
# Rows are the terms by falling document frequency, so that lists of a chunk are of similar kind. A
# term in more images than a chunk has postings has chunks of its own, of a fixed number of
# superblocks each, and the largest impact of each superblock in the pack of bounds. Which chunks
# there are follows from the document frequencies alone (`chunk_plan`).


def chunk_plan(
    frequencies: NDArray[np.integer], images: int, most: int
) -> Iterator[tuple[int, int, int, int]]:
    """The chunks of rows with some frequencies [T], falling, none 0, over N images.

    A chunk has about `most` postings. Each is its first row, the row after its last one, its first
    superblock, and the one after its last.
    """
    superblocks = -(-images // SUPERBLOCK)
    row = 0
    while row < len(frequencies):
        frequency = int(frequencies[row])
        if frequency > most:
            step = max(1, most * superblocks // frequency)
            for start in range(0, superblocks, step):
                yield row, row + 1, start, min(start + step, superblocks)
            row += 1
            continue
        first, room = row, most
        while row < len(frequencies) and frequencies[row] <= room:
            room -= int(frequencies[row])
            row += 1
        yield first, row, 0, superblocks


def posting_chunks(
    columns: Impacts, images: int, rows: NDArray[np.integer], bits: int, most: int
) -> Iterator[bytes]:
    """The chunks, compressed: gaps between positions, then impacts; of 16 bits the low bytes first.

    `columns` has the positions of each term, `rows` [T] the terms in order; see `chunk_plan`.
    """
    starts, positions, impacts = columns
    frequencies = np.diff(starts)[rows]
    for first, end, start, stop in chunk_plan(frequencies, images, most):
        gaps, own = [], []
        for term in rows[first:end].tolist():
            list_positions = positions[starts[term] : starts[term + 1]]
            place, last = np.searchsorted(list_positions, [start * SUPERBLOCK, stop * SUPERBLOCK])
            part = slice(starts[term] + place, starts[term] + last)
            before = start * SUPERBLOCK - 1
            gaps.append(np.diff(positions[part].astype(np.int64), prepend=before) - 1)
            own.append(impacts[part])
        joined = np.concatenate(own)
        planes = [joined & 255, joined >> 8] if bits > 8 else [joined]
        parts = [plane.astype(np.uint8).tobytes() for plane in planes]
        if len(joined):
            yield deflated(leb128(np.concatenate(gaps)).tobytes(), *parts, repetitive=False)
        else:
            yield b""


def bound_chunks(
    columns: Impacts, images: int, rows: NDArray[np.integer], bits: int, most: int
) -> Iterator[bytes]:
    """For each term with chunks of its own, the largest impact of each superblock, compressed.

    They are of 8 bits; of larger impacts the upper 8, rounded up, where 255 stands for the largest
    impact of the term.
    """
    superblocks = -(-images // SUPERBLOCK)
    scale = 1 << max(0, bits - 8)
    starts, positions, impacts = columns
    for term in rows[np.diff(starts)[rows] > most].tolist():
        own = slice(starts[term], starts[term + 1])
        maxima = np.zeros(superblocks, np.int64)
        np.maximum.at(maxima, positions[own] // SUPERBLOCK, impacts[own].astype(np.int64))
        rounded = np.minimum(-(-maxima // scale), 255)
        yield deflated(rounded.astype(np.uint8).tobytes(), repetitive=False)


# What is known of each image: its id, metadata and photo, its terms, and what won them.
#
# Images that are neighbours share a chunk; a hit costs one. A chunk is, for each image, the rank
# of its id and its id, metadata and photo as JSON, and then its grounding, packed as in the index,
# with the impacts of the same terms.


class Shown(NamedTuple):
    """What is published of an image beside its terms."""

    image_id: str  # as it is published
    metadata: JsonMapping  # the fields that are published, with width and height
    photo: str | None  # the name of its pictures, None if there are none


Show = Callable[[int], Shown]


def record_chunks(collection: Collection, show: Show, progress: Progress) -> Iterator[bytes]:
    """The chunks of all images in their order, compressed."""
    order = collection.order.tolist()
    for first in range(0, len(order), IMAGES):
        documents = order[first : first + IMAGES]
        about = [[document, *show(document)] for document in documents]
        parts = [
            part
            for document, packed in zip(documents, collection.groundings(documents), strict=True)
            for part in (packed, _impacts(collection, document, packed))
        ]
        progress("records", first + len(documents), len(order))
        yield deflated(b"".join(map(with_length, [as_json(about), *parts])))


def _impacts(collection: Collection, document: int, packed: bytes) -> bytes:
    """The impacts of an image's terms in the order of its grounding."""
    terms = unpack(packed).terms
    starts, numbers, values = collection.impacts
    own = slice(starts[document], starts[document + 1])
    return leb128(values[own][np.searchsorted(numbers[own], terms)]).tobytes()


def with_length(part: bytes) -> bytes:
    """A part after its length in LEB128."""
    length, left = bytearray(), len(part)
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7
    return bytes([*length, left]) + part


def rank_chunks(order: NDArray[np.int32]) -> Iterator[bytes]:
    """The ranks of the ids of each superblock's images, of which ties are decided; not compressed.

    Each is of the fewest whole bytes that any needs, the lowest first.
    """
    size = max(1, (max(0, len(order) - 1).bit_length() + 7) // 8)
    for first in range(0, len(order), SUPERBLOCK):
        ranks = order[first : first + SUPERBLOCK].astype("<u4")
        yield ranks.view(np.uint8).reshape(-1, 4)[:, :size].tobytes()


def id_chunks(ids: Sequence[str]) -> Iterator[bytes]:
    """Ids with their positions by the hash of the id, compressed."""
    buckets: dict[int, list[tuple[str, int]]] = defaultdict(list)
    count = -(-len(ids) // BUCKET)
    for position, image_id in enumerate(ids):
        buckets[bucket_of(image_id, count)].append((image_id, position))
    for number in range(count):
        yield deflated(as_json(buckets[number]))


def bucket_of(image_id: str, buckets: int) -> int:
    """The chunk of an id: its hash by FNV-1a of 32 bits."""
    found = _FNV
    for byte in image_id.encode("utf-8", "surrogatepass"):
        found = (found ^ byte) * _PRIME & 0xFFFFFFFF
    return found % buckets

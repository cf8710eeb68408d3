"""What is known of each image: its id, metadata and photo, its terms, and what won them.

Images that are neighbours share a chunk; a hit costs one. A chunk is, for each image, the rank of
its id and its id, metadata and photo as JSON, and then its grounding, packed as in the index, with
the impacts of the same terms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import unpack
from server.publish.collection import Collection
from server.publish.packs import deflated, leb128
from server.publish.terms import as_json
from sparta.progress import Progress

IMAGES = 2  # of a chunk: hits are rarely neighbours, and each costs its whole chunk
BUCKET = 256  # ids of a chunk of ids, about
_FNV, _PRIME = 2166136261, 16777619


class Shown(NamedTuple):
    """What is published of an image beside its terms.

    Attributes:
        image_id: as it is published.
        metadata: the fields that are published, with width and height.
        photo: the name of its pictures, None if there are none.
    """

    image_id: str
    metadata: Mapping[str, Any]
    photo: str | None


Show = Callable[[int], Shown]


def record_chunks(collection: Collection, show: Show, progress: Progress) -> Iterator[bytes]:
    """The chunks of all images in their order, compressed.

    Args:
        collection: of the images.
        show: what is published of a document.
        progress: stage "records", in images.
    """
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
        yield deflated(b"".join(map(_with_length, [as_json(about), *parts])))


def _impacts(collection: Collection, document: int, packed: bytes) -> bytes:
    """The impacts of an image's terms in the order of its grounding."""
    terms = unpack(packed).terms
    starts, impacts = collection.impacts.indptr, collection.impacts
    own = slice(starts[document], starts[document + 1])
    places = np.searchsorted(impacts.indices[own], terms)
    return leb128(impacts.data[own][places]).tobytes()


def _with_length(part: bytes) -> bytes:
    """A part after its length in LEB128."""
    length, left = bytearray(), len(part)
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7
    return bytes([*length, left]) + part


def rank_chunks(order: NDArray[np.int32], superblock: int) -> Iterator[bytes]:
    """The ranks of the ids of each superblock's images, of which ties are decided; not compressed.

    Each is of the fewest whole bytes that any needs, the lowest first.
    """
    size = max(1, (max(0, len(order) - 1).bit_length() + 7) // 8)
    for first in range(0, len(order), superblock):
        ranks = order[first : first + superblock].astype("<u4")
        yield ranks.view(np.uint8).reshape(-1, 4)[:, :size].tobytes()


def id_chunks(ids: Sequence[str]) -> Iterator[bytes]:
    """Ids with their positions by the hash of the id, compressed.

    Args:
        ids: [N] as they are published, by position.
    """
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

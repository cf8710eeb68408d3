"""Changes of an index, and their form in Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.postings import ImagePostings, Inputs, Postings
from sparta.json_values import Json, JsonMapping

SCHEMA = pa.schema(
    {
        "kind": pa.uint8(),  # place in KINDS
        "image_id": pa.string(),
        "metadata": pa.string(),  # JSON
        "terms": pa.list_(pa.int32()),
        "impacts": pa.list_(pa.int32()),
        "positions": pa.list_(pa.int16()),
        "boxes": pa.list_(pa.list_(pa.float32(), 4)),
        "label_terms": pa.list_(pa.int32()),
        "label_regions": pa.list_(pa.int16()),
        "content_id": pa.string(),
    }
)
VECTORS = pa.schema({"vector": pa.binary()})  # float16, empty for none
NOT_CHANGES = (ValueError, TypeError, IndexError, EOFError, OSError)  # of Arrow and JSON
_NOTHING = np.empty(0, np.int32)
_NO_POSITIONS = _NOTHING.astype(np.int16)
_NO_INPUTS = Inputs(np.empty((0, 4), np.float32), _NOTHING, _NO_POSITIONS)
OF_TERMS = ("terms", "impacts", "positions")
OF_LABELS = ("label_terms", "label_regions")
Sent = Literal["photo", "features", "terms"]


@dataclass(frozen=True)
class Add:
    """Adds an image, or replaces the one that has its id."""

    image: ImagePostings  # with its metadata
    # Fields that the user gave, None for removed ones; no Mapping if there is nothing to record.
    # Neither this nor `sent` is in the log: see `indexer.store.given`.
    given: JsonMapping | None = None
    sent: Sent | None = None  # what a client sent to be the image

    @property
    def image_id(self) -> str:
        """Of the image."""
        return self.image.image_id


@dataclass(frozen=True)
class MetadataChange:
    """Replaces the metadata of an image; its postings stay."""

    image_id: str
    metadata: Json  # all of it, not only what changes
    # Fields that the user gave, None for removed ones; not in the log
    given: JsonMapping | None = None


@dataclass(frozen=True)
class Delete:
    """Deletes an image; nothing happens if the index lacks it."""

    image_id: str
    vanished: bool = False  # its photo has gone, or has another id; the user did not ask for it


Change = Add | MetadataChange | Delete
KINDS = (Add, MetadataChange, Delete)


def metadata_of(change: Change) -> Json | None:
    """The metadata of an image after a change, None if it is deleted."""
    if isinstance(change, Delete):
        return None
    return change.image.metadata if isinstance(change, Add) else change.metadata


def pack_changes(changes: Sequence[Change]) -> bytes:
    """Changes as one Arrow record batch of `SCHEMA`, and one of `VECTORS` if any image has one.

    The schemas are left out.
    """
    rows = [_image(change) for change in changes]
    images = Postings.of(rows)
    corners = pa.FixedSizeListArray.from_arrays(images.boxes.reshape(-1), 4)
    columns = {
        "kind": pa.array([KINDS.index(type(change)) for change in changes], pa.uint8()),
        "image_id": pa.array(images.ids, pa.string()),
        "metadata": pa.array(map(json.dumps, images.metadata), pa.string()),
        "boxes": _lists(images.box_starts, corners),
        "content_id": pa.array([row.content_id for row in rows], pa.string()),
    }
    for name in OF_TERMS:
        columns[name] = _lists(images.starts, getattr(images, name))
    for name in OF_LABELS:
        columns[name] = _lists(images.label_starts, getattr(images, name))
    ordered = [columns[name] for name in SCHEMA.names]
    packed: bytes = pa.record_batch(ordered, schema=SCHEMA).serialize().to_pybytes()
    if images.vectors:
        vectors = pa.array([one.astype("<f2").tobytes() for one in images.vectors], pa.binary())
        packed += pa.record_batch([vectors], schema=VECTORS).serialize().to_pybytes()
    return packed


def unpack_changes(data: bytes) -> Iterator[Change]:
    """The changes that `pack_changes` packed; raises one of `NOT_CHANGES` for anything else."""
    source = pa.BufferReader(data)
    batch = pa.ipc.read_record_batch(source, SCHEMA)
    batch.validate(full=True)
    vectors: list[NDArray[np.float16]] = []
    if source.tell() < len(data):
        kept = pa.ipc.read_record_batch(source, VECTORS).column(0).to_pylist()
        vectors = [np.frombuffer(one, "<f2") for one in kept]
    columns = {name: batch.column(name) for name in batch.schema.names}
    images = Postings(
        ids=columns["image_id"].to_pylist(),
        metadata=list(map(json.loads, columns["metadata"].to_pylist())),
        starts=_starts(columns["terms"]),
        **{name: columns[name].flatten().to_numpy() for name in OF_TERMS + OF_LABELS},
        box_starts=_starts(columns["boxes"]),
        boxes=columns["boxes"].flatten().flatten().to_numpy().reshape(-1, 4),
        label_starts=_starts(columns["label_terms"]),
        vectors=vectors,
    )
    rows = zip(columns["kind"].to_pylist(), images, columns["content_id"].to_pylist(), strict=True)
    for kind, image, content_id in rows:
        yield _change(kind, replace(image, content_id=content_id))


def _change(kind: int, image: ImagePostings) -> Change:
    if KINDS[kind] is Add:
        return Add(image)
    if KINDS[kind] is MetadataChange:
        return MetadataChange(image.image_id, image.metadata)
    return Delete(image.image_id)


def _image(change: Change) -> ImagePostings:
    """The change as an image, which has no postings if none are added."""
    if isinstance(change, Add):
        return change.image
    metadata = change.metadata if isinstance(change, MetadataChange) else {}
    return ImagePostings(change.image_id, metadata, _NOTHING, _NOTHING, _NO_POSITIONS, _NO_INPUTS)


def _lists(starts: NDArray[np.int64], values: pa.Array | NDArray[np.number]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values)


def _starts(column: pa.ListArray) -> NDArray[np.int64]:
    starts: NDArray[np.int64] = column.offsets.to_numpy().astype(np.int64)
    return starts

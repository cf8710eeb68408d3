"""Writes the index of a site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from indexer.fields.columns import FieldColumn, part_of
from indexer.fields.kinds import FOLDER, PATH, Kind
from server.publish.collection import Collection
from server.publish.folder import MARKER, SiteFolder, digest
from server.publish.packs import (
    CHUNK,
    FILE,
    IMAGES,
    SUPERBLOCK,
    Show,
    Shown,
    as_json,
    bound_chunks,
    deflated,
    id_chunks,
    leb128,
    posting_chunks,
    rank_chunks,
    record_chunks,
    write_pack,
)
from server.publish.terms import write_terms, write_words
from sparta.progress import Progress, no_progress

FORMAT = 1
MANY = 100_000  # images, of more of which smaller parts of lists can be left out
_TYPES: Mapping[Kind, str] = {"number": "<f8", "date": "<i8", "boolean": "u1", "geo": "<f8"}


def write_index(
    site: SiteFolder,
    collection: Collection,
    show: Show,
    *,
    kinds: Mapping[str, Kind] | None = None,
    paths: bool = True,
    about: Mapping[str, Any] | None = None,
    file_bytes: int = FILE,
    chunk: int | None = None,
    progress: Progress = no_progress,
) -> list[str]:
    """Write an index that a browser searches, its first file last.

    Args:
        site: the folder.
        collection: of the images.
        show: what is published of a document.
        kinds: of fields, declared.
        paths: whether the ids that are published are paths.
        about: what else the index says of itself.
        file_bytes: of a file of a pack at most.
        chunk: postings of a chunk, about; None for what suits the number of images.
        progress: stage "records", in images.

    Returns:
        the files that a browser fetches before any query.

    Raises:
        InputError: if a browser cannot read queries as the index's tokenizer does.
    """
    if chunk is None:
        chunk = CHUNK if len(collection) <= MANY else CHUNK // 4
    columns = collection.impacts[collection.order].tocsc()
    columns.sort_indices()
    frequencies = np.diff(columns.indptr).astype(np.int64)
    falling = np.argsort(-frequencies, kind="stable")
    rows = falling[: np.count_nonzero(frequencies)]
    images = [show(document) for document in collection.order.tolist()]
    packs = {
        "postings": posting_chunks(columns, rows, collection.bits, chunk),
        "bounds": bound_chunks(columns, rows, collection.bits, chunk),
        "records": record_chunks(collection, show, progress),
        "ranks": rank_chunks(collection.order),
        "ids": id_chunks([image.image_id for image in images]),
    }
    own = {
        "format": FORMAT,
        "images": len(collection),
        "bits": collection.bits,
        "superblock": SUPERBLOCK,
        "chunk": chunk,
        "record": IMAGES,
        **write_words(site, collection),
        **write_terms(site, collection, columns, frequencies),
        "fields": write_fields(site, images, kinds or {}, paths),
        "packs": {name: write_pack(site, name, own, file_bytes) for name, own in packs.items()},
        **(about or {}),
    }
    own["bytes"] = sum(size for path, size in site.sizes.items() if path.startswith("index/"))
    own["version"] = digest(as_json(own))
    site.put(MARKER, as_json(own))
    small = [
        pack["directory"]
        for name, pack in own["packs"].items()
        if name != "ids" and len(pack["pieces"]) == 1
    ]
    return [MARKER, *(f"index/{name}" for name in (own["words"], own["terms"], *small))]


def write_fields(
    site: SiteFolder, images: Sequence[Shown], kinds: Mapping[str, Kind], paths: bool
) -> dict[str, Any]:
    """Write the fields of images.

    Args:
        site: the folder.
        images: [N] by position.
        kinds: declared, by field.
        paths: whether ids are paths, which are fields then.

    Returns:
        by the name of each field its kind and its file.
    """
    part = part_of(((image.image_id, image.metadata) for image in images), kinds)
    written = {}
    for name, column in sorted(part.columns.items()):
        if paths or name not in (PATH, FOLDER):
            content = deflated(_packed(column))
            written[name] = [column.kind, site.put_named("index/field", content)]
    return written


def _packed(column: FieldColumn) -> bytes:
    """How many values each image has, then the values, after a header with a keyword's words."""
    header = as_json(None if column.words is None else column.words.to_pylist())
    counts = leb128(np.diff(column.starts))
    kind = _TYPES.get(column.kind)
    values = leb128(column.values) if kind is None else column.values.astype(kind)
    parts = [header, counts.tobytes(), values.tobytes()]
    return b"".join(leb128(np.array([len(part)])).tobytes() + part for part in parts)

"""Writes the index of a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from indexer.fields.kinds import Kind
from server.publish.collection import Collection
from server.publish.fields import write_fields
from server.publish.folder import MARKER, SiteFolder, digest
from server.publish.packs import FILE, write_pack
from server.publish.postings import CHUNK, SUPERBLOCK, bound_chunks, posting_chunks
from server.publish.records import IMAGES, Show, id_chunks, rank_chunks, record_chunks
from server.publish.terms import as_json, write_terms, write_words
from sparta.progress import Progress, no_progress

FORMAT = 1
MANY = 100_000  # images, of more of which smaller parts of lists can be left out


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
        "ranks": rank_chunks(collection.order, SUPERBLOCK),
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

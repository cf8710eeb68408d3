"""Which images of an index that is written to a dense part can have vectors of."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path

import numpy as np

from indexer.dense.added import AddedRows
from indexer.dense.manifest import VECTORS, DenseManifest, dense_folder
from indexer.dense.row_origins import read_origins
from indexer.dense.vectors import ImageVectors
from indexer.live.origin import built_origin, origin_of
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import check_hash
from sparta.checksum import sha256
from sparta.errors import InputError
from sparta.features.store import FeatureStore


def present_origins(images: LuceneIndex) -> dict[str, str]:
    """Id → origin of the images that are not deleted."""
    live, origins = images.live, images.origins().to_pylist()
    documents = range(images.documents) if live is None else np.flatnonzero(live).tolist()
    return {images.stored(document).image_id: origins[document] for document in documents}


def usable_rows(store: FeatureStore, present: Mapping[str, str]) -> list[int]:
    """Rows of a store with images of an index in their present content."""
    rows = []
    for row, image_id in enumerate(store.ids):
        origin = present.get(image_id)
        if origin == built_origin(image_id) or (origin and origin == origin_of(store[row])):
            rows.append(row)
    return rows


def keep_rows(
    index: Path,
    name: str,
    manifest: Manifest,
    model: str,
    wanted: Container[str],
    vectors: ImageVectors,
) -> list[str]:
    """Copy rows of some origins from the part that has the name and a model of this fingerprint.

    Returns:
        their origins.
    """
    folder = dense_folder(index, name)
    try:
        made = DenseManifest.open(index, name, manifest)
        if made.model != model:
            return []
        check_hash(folder / VECTORS, made.parts[VECTORS], sha256(folder / VECTORS))
        added = AddedRows(folder, made.views, made.dimension)
        following = added.origins()
        former = ImageVectors.open(folder / VECTORS, made.views)
        former = former.followed_by(added.vectors(len(following)))
        origins = [*read_origins(folder).to_pylist(), *following]
    except InputError:  # there is none, or it is damaged and made anew for that
        return []
    rows = {origin: row for row, origin in enumerate(origins) if origin in wanted}
    for row in rows.values():
        vectors.add(former.of(row)[None])
    return list(rows)

"""Opens the dense parts of an index folder; torch is loaded with the first model."""

from __future__ import annotations

from pathlib import Path

from indexer.dense.manifest import (
    ENSEMBLE,
    MODEL,
    VECTORS,
    DenseManifest,
    dense_folder,
    dense_names,
)
from indexer.dense.vectors import ImageVectors, import_faiss
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import LUCENE, Manifest
from indexer.search.dense import DenseSearcher, EnsembleSearcher, StoredImages, VectorSearcher
from sparta.errors import InputError


def open_dense(index: Path, name: str) -> VectorSearcher:
    """A searcher over a dense part of an index folder, or over all for the name "ensemble".

    Raises:
        InputError: if there is no such part, it is damaged, or FAISS is not installed.
    """
    manifest = Manifest.open(index)
    names = dense_names(index) if name == ENSEMBLE else [name]
    if name == ENSEMBLE and len(names) < 2:
        raise InputError(f"{index} has {len(names)} dense parts, an ensemble needs two")
    parts = {part: DenseManifest.open(index, part, manifest) for part in names}
    images = LuceneIndex(index / LUCENE)
    members = [open_part(dense_folder(index, part), parts[part], images) for part in names]
    return EnsembleSearcher(members) if name == ENSEMBLE else members[0]


def open_part(folder: Path, manifest: DenseManifest, images: StoredImages) -> DenseSearcher:
    """A searcher over one dense part.

    Args:
        folder: of the part.
        manifest: its own, checked.
        images: those of the index it belongs to; closed with the searcher.

    Raises:
        InputError: if its vectors or its model are others, or FAISS is not installed.
    """
    import_faiss()
    from indexer.dense.text_encoder import ModelText

    path = folder / VECTORS
    vectors = ImageVectors.open(path, manifest.views)
    found = (len(vectors), vectors.dimension)
    if found != (manifest.images, manifest.dimension):
        raise InputError(
            f"{path} has {found[0]} images of {found[1]} numbers instead of {manifest.images} of "
            f"{manifest.dimension}: build it anew with --dense"
        )
    return DenseSearcher(images, vectors, ModelText.open(folder / MODEL, manifest.model))

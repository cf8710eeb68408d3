"""A dense part of an index folder, whose model and vectors are loaded once for all commits."""

from __future__ import annotations

import logging
from pathlib import Path
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from indexer.dense.added import AddedRows
from indexer.dense.manifest import MODEL, VECTORS, DenseManifest, dense_folder
from indexer.dense.row_origins import read_origins
from indexer.dense.rows import RowFinder
from indexer.dense.vectors import ImageVectors, import_faiss
from indexer.manifest import Manifest
from indexer.parts import check_hash, check_small_parts
from indexer.search.dense import DenseSearcher, StoredImages, TextEncoder
from indexer.store.snapshot import Snapshot
from sparta.checksum import sha256
from sparta.errors import InputError

log = logging.getLogger(__name__)

Rows = NDArray[np.int64]  # [documents] the row of each, -1 for none


class DensePart:
    """Makes searchers of one dense part, over the images of any commit.

    An image that was added or replaced has a vector only if the part has a row of its origin.

    Args:
        index: the index folder.
        name: of the part.
        of: the index's own manifest.

    Raises:
        InputError: if there is no such part, or it is damaged or of another index.
    """

    def __init__(self, index: Path, name: str, of: Manifest) -> None:
        self.manifest = DenseManifest.open(index, name, of)
        self._folder = dense_folder(index, name)
        self._added = AddedRows(self._folder, self.manifest.views, self.manifest.dimension)
        self._finder = RowFinder(read_origins(self._folder))
        self._loaded: tuple[ImageVectors, TextEncoder] | None = None
        self._checked = 0
        # Of the images of a commit, which are to go when nothing else refers to them.
        self._known: tuple[ReferenceType[StoredImages], Rows] | None = None

    def searcher(self, images: StoredImages) -> DenseSearcher:
        """A searcher of some images.

        Args:
            images: of one commit of the index; closed with the searcher.

        Raises:
            InputError: if the part is damaged, or FAISS is not installed.
        """
        first = self._loaded is None
        vectors, encoder = self._loaded = self._loaded or self._load()
        rows = self._rows(images, self._finder)
        added = max(0, int(rows.max(initial=-1)) + 1 - self.manifest.images)
        following = self._added.vectors(added, self._checked)
        self._checked = max(self._checked, added)
        if first and (missing := len(images) - int(np.count_nonzero(rows >= 0))):
            log.warning("%s has no vectors of %d of %d images", self._folder, missing, len(images))
        if not added and np.array_equal(rows, np.arange(len(vectors))):
            return DenseSearcher(images, vectors, encoder)  # as built: a graph may be walked
        return DenseSearcher(images, vectors.followed_by(following), encoder, rows)

    def count(self, images: StoredImages) -> int:
        """How many of some images have a vector; loads no vectors.

        Raises:
            InputError: if the part is damaged.
        """
        return int(np.count_nonzero(self._rows(images, self._finder) >= 0))

    def _rows(self, images: StoredImages, finder: RowFinder) -> Rows:
        """The row of each document, -1 for none."""
        known = self._known
        if known is None or known[0]() is not images:
            rows = finder.find(images.origin_parts(), self._added.origins())
            if images.live is not None:
                rows[~images.live] = -1
            known = self._known = ref(images), rows
        return known[1]

    def _load(self) -> tuple[ImageVectors, TextEncoder]:
        import_faiss()
        from indexer.dense.text_encoder import ModelText

        folder, manifest = self._folder, self.manifest
        check_small_parts(folder, manifest.parts)
        path = folder / VECTORS
        check_hash(path, manifest.parts[VECTORS], sha256(path))  # of any size: it is read whole
        vectors = ImageVectors.open(path, manifest.views)
        found = (len(vectors), vectors.dimension)
        if found != (manifest.images, manifest.dimension):
            raise InputError(
                f"{path} has {found[0]} images of {found[1]} numbers instead of "
                f"{manifest.images} of {manifest.dimension}: add it again with "
                "`sparta index-dense`"
            )
        return vectors, ModelText.open(folder / MODEL, manifest.model)


def missing_vectors(index: Path, name: str) -> int:
    """How many images of an index one dense part has no vectors of.

    Raises:
        InputError: if there is no such part, or it is damaged or of another index.
    """
    part, images = DensePart(index, name, Manifest.open(index)), Snapshot.open(index)
    return len(images) - part.count(images)

"""The vectors of images in a FAISS index file, and the images nearest to a query's vector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.extras import require

VectorIndexKind = Literal["flat", "hnsw"]

NEIGHBOURS = 32  # links of a vector in the graph
EF_CONSTRUCTION = 200
EF_SEARCH = 128  # candidates kept while searching the graph; more if k is larger


class Nearest(NamedTuple):
    """Images by descending score, ties by number.

    Attributes:
        images: [k] int64, image numbers.
        scores: [k] float32.
        views: [k] int64, the view of each image that has that score, the first of equals; None
            if images have one.
    """

    images: NDArray[np.int64]
    scores: NDArray[np.float32]
    views: NDArray[np.int64] | None = None


class ImageVectors:
    """K vectors for each of N images, compared by inner product; an image's score is its best.

    A flat index compares the query with every vector. An HNSW graph (arXiv 1603.09320) visits
    few of them and may miss some images, but what it finds has the same scores.

    Args:
        index: a FAISS index of N·K vectors, where row = image·K + view.
        views: K.
        added: [M, K, D] vectors of further images, which a graph does not have.
    """

    def __init__(self, index: Any, views: int, added: NDArray[np.float32] | None = None) -> None:
        faiss = import_faiss()
        self._index = index
        self._added = np.empty((0, views, index.d), np.float32) if added is None else added
        self._flat = faiss.downcast_index(index.storage) if hasattr(index, "storage") else index
        self.views = views

    @classmethod
    def create(cls, dimension: int, views: int, kind: VectorIndexKind = "flat") -> ImageVectors:
        """An index without images."""
        faiss = import_faiss()
        if kind == "flat":
            return cls(faiss.IndexFlatIP(dimension), views)
        graph = faiss.IndexHNSWFlat(dimension, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = EF_CONSTRUCTION
        return cls(graph, views)

    @classmethod
    def open(cls, path: Path, views: int) -> ImageVectors:
        """Read a file.

        Raises:
            InputError: if FAISS cannot read it.
        """
        try:
            return cls(import_faiss().read_index(str(path)), views)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"{path} cannot be read: {reason}; add it again with `sparta index-dense`"
            ) from error

    def save(self, path: Path) -> None:
        """Write a file."""
        import_faiss().write_index(self._index, str(path))

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Append images.

        Args:
            vectors: [B, K, D] float32.

        Raises:
            ValueError: if a number is not finite, or the shape is another.
        """
        if vectors.shape[1:] != (self.views, self.dimension) or not np.isfinite(vectors).all():
            raise ValueError(
                f"expected finite vectors [B, {self.views}, {self.dimension}], "
                f"found {list(vectors.shape)}"
            )
        self._index.add(np.ascontiguousarray(vectors.reshape(-1, self.dimension)))

    def followed_by(self, added: NDArray[np.float32]) -> ImageVectors:
        """These images and others [M, K, D] after them; these stay as they are."""
        return ImageVectors(self._index, self.views, added)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self._index.d)

    def __len__(self) -> int:
        """N."""
        return self._first_added + len(self._added)

    @property
    def _first_added(self) -> int:
        return int(self._index.ntotal) // self.views

    def of(self, image: int) -> NDArray[np.float32]:
        """The vectors of an image's views, [K, D]."""
        if image >= self._first_added:
            found: NDArray[np.float32] = self._added[image - self._first_added]
            return found
        found = self._flat.reconstruct_n(image * self.views, self.views)
        return found

    def nearest(
        self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Nearest:
        """The k best images for a query's vector [D]; all of them if there are fewer.

        Args:
            query: [D].
            k: images at most.
            allowed: [N] images that may be found, all of which are then compared; None for all.
        """
        if self._index is not self._flat and allowed is None and not len(self._added):
            return self._walk(query, k)
        scores = self.scores(query)
        found = best(scores.max(axis=1), k, allowed)
        return self._with_views(found, scores[found.images].argmax(axis=1))

    def scores(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Inner products of a vector [D] with every view of every image, [N, K]; exact.

        Equal vectors get equal scores, which a matrix product does not promise.
        """
        faiss = import_faiss()
        query = np.ascontiguousarray(query, np.float32)
        found = np.empty((len(self), self.views), np.float32)
        first = self._first_added
        parts = [(found[:first], self._flat.get_xb())]
        if len(self._added):
            parts.append((found[first:], faiss.swig_ptr(self._added)))
        for products, vectors in parts:
            faiss.fvec_inner_products_ny(
                faiss.swig_ptr(products),
                faiss.swig_ptr(query),
                vectors,
                self.dimension,
                products.size,
            )
        return found

    def _walk(self, query: NDArray[np.float32], k: int) -> Nearest:
        """Search the graph; k·K vectors belong to at least k images."""
        rows = min(k, len(self)) * self.views
        options = import_faiss().SearchParametersHNSW(efSearch=max(EF_SEARCH, rows))
        scores, found = self._index.search(query[None], rows, params=options)
        scores, found = scores[found >= 0], found[found >= 0]
        order = np.lexsort((found, -scores))
        scores, found = scores[order], found[order]
        _, first = np.unique(found // self.views, return_index=True)
        first = np.sort(first)[:k]
        nearest = Nearest(found[first] // self.views, scores[first])
        return self._with_views(nearest, found[first] % self.views)

    def _with_views(self, found: Nearest, views: NDArray[np.int64]) -> Nearest:
        return found._replace(views=views) if self.views > 1 else found


def best(
    scores: NDArray[np.float32],
    k: int,
    allowed: NDArray[np.bool_] | None = None,
    image_id: Callable[[int], str] | None = None,
) -> Nearest:
    """The k largest of the scores [N] of N images, or of those of them that are allowed.

    Args:
        scores: [N].
        k: images at most.
        allowed: [N] images that may be found; None for all.
        image_id: of an image, by which ties are ordered; None if images are in that order.
    """
    candidates = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    if k < len(candidates):
        own = scores[candidates]
        candidates = candidates[own >= np.partition(own, -k)[-k]]
    if image_id is not None:
        candidates = np.array(sorted(candidates.tolist(), key=image_id), np.int64)
    images = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return Nearest(images, scores[images])


def import_faiss() -> Any:
    """The `faiss` module.

    Raises:
        InputError: if it is not installed.
    """
    return require("faiss")

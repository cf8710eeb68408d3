"""Searches the image vectors of one dense model."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.dense.rows import OriginParts
from indexer.dense.vectors import ImageVectors, Nearest, best
from indexer.query.parse import parsed, plain_text
from indexer.query.query import Query, QueryError
from indexer.search.api import (
    Allowed,
    Hit,
    NoVectorError,
    SearchResult,
    SimilarResult,
    Timings,
    UnknownImageError,
    ids_of,
)
from indexer.store.images import Stored
from sparta.errors import InputError


class TextEncoder(Protocol):
    """The text side of a dense model."""

    def encode(self, text: str) -> NDArray[np.float32]:
        """Embed a text, [D] float32."""
        ...

    def unknown(self, text: str) -> list[str]:
        """The text's words that are not in the vocabulary, each once."""
        ...


class StoredImages(Protocol):
    """Images of one commit by document number."""

    @property
    def live(self) -> NDArray[np.bool_] | None: ...  # noqa: D102
    def origin_parts(self) -> OriginParts: ...  # noqa: D102
    def stored(self, document: int) -> Stored: ...  # noqa: D102
    def document(self, image_id: str) -> int | None: ...  # noqa: D102
    def __len__(self) -> int: ...


class DenseSearcher:
    """A `Searcher` that embeds the query and finds the nearest images of one dense model.

    Args:
        images: in the order of the vectors, unless there are `rows`.
        vectors: of the images.
        encoder: of the same model.
        rows: [documents] the vectors' row of each image of an index that is written to, -1 where
            it has none or was deleted. All vectors are then compared, even if there is a graph.

    Attributes:
        images: ids and metadata of the images.
        found: [documents] images that have vectors; None for all, in the order of their ids.
    """

    def __init__(
        self,
        images: StoredImages,
        vectors: ImageVectors,
        encoder: TextEncoder,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        self.images = images
        self._vectors = vectors
        self._encoder = encoder
        self._rows = rows
        self.found = None if rows is None else rows >= 0

    def _nearest(self, encoded: NDArray[np.float32], k: int, allowed: Allowed | None) -> Nearest:
        """The k images with the nearest view, of those allowed."""
        if self._rows is None:
            return self._vectors.nearest(encoded, k, allowed)
        views = self._vectors.scores(encoded)
        nearest = self._best(self._by_document(views.max(axis=1)), k, allowed)
        if self._vectors.views == 1:
            return nearest
        return nearest._replace(views=views[self._rows[nearest.images]].argmax(axis=1))

    def _similarities(self, image: int) -> NDArray[np.float32]:
        """The similarity of an image to every image, [N]: of the most similar pair of their views.

        It is exact even where `_nearest` is not, and -inf for images without vectors.
        """
        views = self._vectors.of(image if self._rows is None else int(self._rows[image]))
        best: NDArray[np.float32] = np.max([self._scores(view) for view in views], axis=0)
        return best

    def _scores(self, encoded: NDArray[np.float32]) -> NDArray[np.float32]:
        """Each image's exact score [N]: the best of its views; -inf without vectors."""
        best: NDArray[np.float32] = self._vectors.scores(encoded).max(axis=1)
        return self._by_document(best)

    def _by_document(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of the rows as those of the documents."""
        if self._rows is None or self.found is None:
            return scores
        found = np.full(len(self._rows), -np.inf, np.float32)
        found[self.found] = scores[self._rows[self.found]]
        return found

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k nearest images for a text; see `Searcher.search`. There are no substitutes."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if min_coverage is not None:
            raise InputError("a dense model has no coverage: leave it out, or search sparta")
        start = time.perf_counter()
        text = plain_text(query)
        unknown = self._encoder.unknown(text)
        tokenised = time.perf_counter()
        encoded = self._encoder.encode(text)
        ready = time.perf_counter()
        hits = self._hits(self._nearest(encoded, k, allowed))
        end = time.perf_counter()
        times = (tokenised - start, end - ready, end - start, ready - tokenised)
        return SearchResult(hits, unknown, Timings(*(1000 * time for time in times)))

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        """The k images nearest to indexed ones, by the mean; see `Searcher.similar`.

        Raises:
            NoVectorError: if one of them has no vector.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if (query := parsed(words)).text.strip():
            problem = "a dense model compares photos alone: leave the words out, or search sparta"
            raise QueryError(problem, query.text, 1)
        start = time.perf_counter()
        images = [self._with_vector(one) for one in ids_of(image_id)]
        similarities = np.mean([self._similarities(image) for image in images], axis=0)
        found = self._best(similarities, k + len(images), allowed)
        rest = np.flatnonzero(~np.isin(found.images, images))[:k]
        hits = self._hits(Nearest(found.images[rest], found.scores[rest]))
        milliseconds = 1000 * (time.perf_counter() - start)
        return SimilarResult(hits, [], Timings(0.0, milliseconds, milliseconds), {})

    def _best(self, scores: NDArray[np.float32], k: int, allowed: Allowed | None) -> Nearest:
        """The k best of the documents' scores [N], of those allowed, ties by image id."""
        if self.found is None:
            return best(scores, k, allowed)
        some = self.found if allowed is None else self.found & allowed
        return best(scores, k, some, lambda image: self.images.stored(image).image_id)

    def _hits(self, found: Nearest) -> list[Hit]:
        views: Iterable[int | None] = repeat(None) if found.views is None else found.views.tolist()
        hits: list[Hit] = []
        for image, score, view in zip(
            found.images.tolist(), found.scores.tolist(), views, strict=False
        ):
            image_id, metadata = self.images.stored(image)
            hits.append(Hit(len(hits) + 1, image_id, score, metadata, view))
        return hits

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self.images.stored(self._document(image_id)).metadata

    def _document(self, image_id: str) -> int:
        document = self.images.document(image_id)
        if document is None:
            raise UnknownImageError(image_id)
        return document

    def _with_vector(self, image_id: str) -> int:
        document = self._document(image_id)
        if self.found is not None and not self.found[document]:
            raise NoVectorError(
                f"image {image_id!r} has no vector of this model, since it was added without one: "
                "search sparta, or add vectors with `sparta index-dense`"
            )
        return document

    def __len__(self) -> int:
        """Number of images that have vectors."""
        return len(self.images) if self.found is None else int(np.count_nonzero(self.found))

    def close(self) -> None:
        """Nothing: files are mapped as long as something refers to them."""

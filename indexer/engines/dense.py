"""Searches the image vectors of a dense model, which is loaded by the first query."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indexer.answer import RefusedError, UnavailableError
from indexer.dense.manifest import MODEL, VECTORS, DenseManifest, dense_folder
from indexer.dense.vectors import (
    AddedRows,
    ImageVectors,
    Nearest,
    RowFinder,
    best,
    import_faiss,
    read_content_ids,
)
from indexer.engines.columns import ColumnsEngine, Mask
from indexer.manifest import Manifest, check_hash, check_small_parts
from indexer.search.engine import Capability, Fact, Found, Plan, Statistics
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.files import sha256

if TYPE_CHECKING:
    from indexer.dense.text_encoder import ModelText

MS = 1000.0

log = logging.getLogger(__name__)

# One lock for all models: while transformers loads a model it changes its own classes for the whole
# process, and two models loading at once leave them changed.
_loading = Lock()


class DensePart:
    """A dense part of an index folder, whose model and vectors are loaded once for all commits.

    Raises InputError if there is no such part, or it is damaged or of another index.
    """

    def __init__(self, index: Path, name: str, of: Manifest) -> None:
        self.manifest = DenseManifest.open(index, name, of)
        self.name = name
        self._folder = dense_folder(index, name)
        self._added = AddedRows(self._folder, self.manifest.views, self.manifest.dimension)
        self._finder = RowFinder(read_content_ids(self._folder))
        self._loaded: tuple[ImageVectors, ModelText] | None = None
        self._checked = 0

    def rows(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """[documents] the row of each image, -1 for none.

        An added or replaced image has a vector only if the part has a row of its content id.
        Raises UnavailableError if the part is damaged.
        """
        try:
            rows = self._finder.find(snapshot.content_id_parts(), self._added.content_ids())
        except InputError as error:
            raise UnavailableError(str(error)) from error
        if snapshot.live is not None:
            rows[~snapshot.live] = -1
        return rows

    def vectors(self, rows: NDArray[np.int64]) -> ImageVectors:
        """The vectors of some rows, with those that were appended."""
        vectors, _ = self.loaded()
        added = max(0, int(rows.max(initial=-1)) + 1 - self.manifest.images)
        if not added:
            return vectors
        following = self._added.vectors(added, self._checked)
        self._checked = max(self._checked, added)
        return vectors.followed_by(following)

    def loaded(self) -> tuple[ImageVectors, ModelText]:
        """The vectors and their model, loaded by the first call, and again after one that failed.

        Raises UnavailableError if the part is damaged, or what it needs is not installed.
        """
        if self._loaded is None:
            with _loading:
                try:
                    self._loaded = self._loaded or self._load()
                except InputError as error:
                    raise UnavailableError(str(error)) from error
        return self._loaded

    def _load(self) -> tuple[ImageVectors, ModelText]:
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
                "`sparta add --dense`"
            )
        text = ModelText.open(folder / MODEL, manifest.model)
        text.encode("a photo")  # so that torch's own preparations do not count in an answer's time
        return vectors, text


class DenseEngine(ColumnsEngine):
    """Embeds the query, and finds the nearest images of one dense model at one commit.

    Where images were written, all vectors are compared, even if there is a graph. The snapshot
    filters and has the metadata.
    """

    can = frozenset({Capability.FILTER, Capability.SIMILAR})
    name = "dense"

    def __init__(self, part: DensePart, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._part = part

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        rows = self._part.rows(self.snapshot)
        if missing := len(self.snapshot) - int(np.count_nonzero(rows >= 0)):
            log.warning("%s has no vectors of %d images", self._part.name, missing)
        return rows

    @cached_property
    def _embedded(self) -> Mask:
        """[documents] images that have vectors."""
        return self._rows >= 0

    @cached_property
    def _as_built(self) -> bool:
        """Whether the rows are those of all documents, in their order."""
        return np.array_equal(self._rows, np.arange(self._part.manifest.images))

    @cached_property
    def _vectors(self) -> ImageVectors:
        return self._part.vectors(self._rows)

    def statistics(self, terms: Sequence[int] = (), *facts: Fact) -> Statistics:
        """Facts of the commit, and how many images have vectors; see `Engine.statistics`."""
        found = super().statistics(terms, *facts)
        images = int(np.count_nonzero(self._embedded))
        return found._replace(images=images, missing_images=found.images - images)

    def top(self, plan: Plan, k: int) -> Found:
        """The k images nearest to a text, or to indexed images by the mean; see `Engine.top`."""
        allowed, _ = self._allowed(plan)
        if plan.like:
            images = [self._with_vector(image_id) for image_id in plan.like]
            similarities = np.mean([self._similarities(image) for image in images], axis=0)
            nearest = self._best_of(similarities, k + len(images), allowed)
            rest = np.flatnonzero(~np.isin(nearest.images, images))[:k]
            return self._found(nearest.images[rest].tolist(), nearest.scores[rest].tolist(), ())
        encoded, unknown, encode_ms = self._encoded(plan.text)
        nearest = self._nearest(encoded, k, allowed)
        found = self._found(nearest.images.tolist(), nearest.scores.tolist(), ())
        views = None if nearest.views is None else nearest.views.tolist()
        return found._replace(unknown=unknown, encode_ms=encode_ms, views=views)

    def _encoded(self, text: str) -> tuple[NDArray[np.float32], list[str], float]:
        """The vector of a text, its words that the model does not know, and milliseconds."""
        _, model = self._part.loaded()
        unknown = model.unknown(text)
        start = perf_counter()
        return model.encode(text), unknown, (perf_counter() - start) * MS

    def _nearest(self, encoded: NDArray[np.float32], k: int, allowed: Mask | None) -> Nearest:
        """The k images with the nearest view, of those allowed."""
        if self._as_built:  # where a graph may be walked
            return self._vectors.nearest(encoded, k, allowed)
        views = self._vectors.scores(encoded)
        nearest = self._best_of(self._by_document(views.max(axis=1)), k, allowed)
        if self._vectors.views == 1:
            return nearest
        return nearest._replace(views=views[self._rows[nearest.images]].argmax(axis=1))

    def _similarities(self, image: int) -> NDArray[np.float32]:
        """[N] the similarity of an image to every image: of the most similar pair of their views.

        It is exact even where `_nearest` is not, and -inf for images without vectors.
        """
        views = self._vectors.of(int(self._rows[image]))
        scores = [self._by_document(self._vectors.scores(view).max(axis=1)) for view in views]
        largest: NDArray[np.float32] = np.max(scores, axis=0)
        return largest

    def _by_document(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of the rows as those of the documents, -inf without vectors."""
        found = np.full(len(self._rows), -np.inf, np.float32)
        found[self._embedded] = scores[self._rows[self._embedded]]
        return found

    def _best_of(self, scores: NDArray[np.float32], k: int, allowed: Mask | None) -> Nearest:
        """The k best of the documents' scores [N], of those allowed, in the order of hits."""
        some = self._embedded if allowed is None else self._embedded & allowed
        return best(scores, k, some, lambda image: self.snapshot.stored(image).image_id)

    def _with_vector(self, image_id: str) -> int:
        document = self._document(image_id)
        if not self._embedded[document]:
            raise RefusedError(
                "image_id",
                f"image {image_id!r} has no vector of this model, since it was added without one: "
                "search sparta, or add vectors with `sparta add --dense`",
            )
        return document

    def over(self, snapshot: Snapshot) -> DenseEngine:
        """The same model over another commit."""
        return DenseEngine(self._part, snapshot)


class EnsembleEngine(DenseEngine):
    """Ranks by the mean of the similarities of several dense models, as GPO and 2AD do (R+G).

    It finds the images that all of them have vectors of, and compares all vectors.
    """

    name = "ensemble"

    def __init__(self, members: Sequence[DenseEngine]) -> None:
        ColumnsEngine.__init__(self, members[0].snapshot)
        self._members = members

    @cached_property
    def _embedded(self) -> Mask:
        embedded: Mask = np.logical_and.reduce([one._embedded for one in self._members])
        return embedded

    def top(self, plan: Plan, k: int) -> Found:
        """As of one model; see `Engine.top`."""
        if plan.like:
            return super().top(plan, k)
        allowed, _ = self._allowed(plan)
        encoded = [one._encoded(plan.text) for one in self._members]
        of_each = [
            one._by_document(one._vectors.scores(vector).max(axis=1))
            for one, (vector, _, _) in zip(self._members, encoded, strict=True)
        ]
        nearest = self._best_of(np.mean(of_each, axis=0), k, allowed)
        found = self._found(nearest.images.tolist(), nearest.scores.tolist(), ())
        unknown = [
            word for word in encoded[0][1] if all(word in others for _, others, _ in encoded)
        ]
        return found._replace(unknown=unknown, encode_ms=sum(ms for *_, ms in encoded))

    def _similarities(self, image: int) -> NDArray[np.float32]:
        mean: NDArray[np.float32] = np.mean(
            [one._similarities(image) for one in self._members], axis=0
        )
        return mean

    def over(self, snapshot: Snapshot) -> EnsembleEngine:
        """The same models over another commit."""
        return EnsembleEngine([one.over(snapshot) for one in self._members])

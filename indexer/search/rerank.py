"""Re-ranking: the first hits by score, ordered anew by the similarity of text and photo."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.answer import UnavailableError
from indexer.grounding import vector_of
from indexer.manifest import TEXT_TOWER
from indexer.search.engine import Found
from indexer.search.explanations import AskDocuments
from sparta.errors import InputError

if TYPE_CHECKING:
    from sparta.adapt.text_tower import TextTower

MS = 1000.0


class TextVectors:
    """The text tower of an index, opened by its first text. Safe from any thread.

    Attributes:
        depth: hits that a search may re-rank at most.
    """

    def __init__(self, index: Path, depth: int) -> None:
        self._folder, self.depth = index / TEXT_TOWER, depth

    def of(self, text: str) -> NDArray[np.float32]:
        """[d] the vector of a text; raises UnavailableError if the tower cannot be opened."""
        vector: NDArray[np.float32] = self._tower.encode([text])[0]
        return vector

    @cached_property
    def _tower(self) -> TextTower:
        # OpenVINO, which other searches do not need
        from sparta.adapt.text_tower import TextTower

        try:
            return TextTower.from_folder(self._folder)
        except InputError as error:
            raise UnavailableError(str(error)) from error


class Rerank(NamedTuple):
    """How the ranking of one search is ordered anew.

    Attributes:
        depth: hits that are.
        text: whose similarity to a photo decides.
        vectors: of texts.
        ask: for what the index stores of images.
    """

    depth: int
    text: str
    vectors: TextVectors
    ask: AskDocuments

    def __call__(self, found: Found) -> Found:
        """The images with their similarities: cosines, None for images without a vector.

        The first `depth` fall by them; images without a vector follow, and equal ones are in the
        order of their ids.
        """
        start = perf_counter()
        text = self.vectors.of(self.text)
        encode_ms = (perf_counter() - start) * MS
        ids = found.image_ids[: self.depth]
        packed = self.ask(ids, (), True).groundings or []
        # Number by number: a product of matrices rounds by their shapes.
        photos = [vector_of(one).astype(np.float32) for one in packed]
        cosines = [float((one * text).sum()) if len(one) else None for one in photos]
        keys = [
            (one is None, -(one or 0), image_id) for one, image_id in zip(cosines, ids, strict=True)
        ]
        order = sorted(range(len(ids)), key=keys.__getitem__)
        others = range(len(ids), len(found.image_ids))
        similarities = [*(cosines[n] for n in order), *(None for _ in others)]
        ordered = found.at([*order, *others])
        return ordered._replace(similarities=similarities, encode_ms=encode_ms)

"""Re-ranking: the first hits by score, ordered anew by the similarity of text and photo."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from indexer.answer import UnavailableError
from indexer.grounding import vector_of
from indexer.manifest import TEXT_TOWER
from indexer.search.engine import AskDocuments, Found
from sparta.errors import InputError

if TYPE_CHECKING:
    from sparta.adapt.text_tower import TextTower


class Reranker:
    """Orders hits of an index that keeps vectors; its text tower is opened by the first text.

    Attributes:
        deepest: hits that a search may re-rank at most.
    """

    def __init__(self, index: Path, deepest: int) -> None:
        self._folder, self.deepest = index / TEXT_TOWER, deepest

    @cached_property
    def _tower(self) -> TextTower:
        # OpenVINO, which other searches do not need
        from sparta.adapt.text_tower import TextTower
        from sparta.inference import read_entry

        try:
            return TextTower(self._folder, read_entry(self._folder))
        except InputError as error:
            raise UnavailableError(str(error)) from error

    def __call__(self, text: str, depth: int, ask: AskDocuments, found: Found) -> Found:
        """The images with their similarities: cosines, None for images without a vector.

        The first `depth` fall by them; images without a vector follow, and equal ones are in the
        order of their ids. Raises UnavailableError if the tower is damaged.
        """
        start = perf_counter()
        [vector] = self._tower.encode([text])
        encode_ms = (perf_counter() - start) * 1000
        ids, count = found.image_ids[:depth], len(found.image_ids)
        photos = [vector_of(one).astype(np.float32) for one in ask(ids, (), True).groundings or ()]
        # Image by image: a product of matrices rounds by their shapes.
        cosines = [float((one * vector).sum()) if len(one) else None for one in photos]
        keys = [(one is None, -(one or 0), ids[n]) for n, one in enumerate(cosines)]
        order = [*sorted(range(len(ids)), key=keys.__getitem__), *range(len(ids), count)]
        every = [*cosines, *[None] * (count - len(ids))]
        return found._replace(similarities=every, encode_ms=encode_ms).at(order)

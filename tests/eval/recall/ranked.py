"""A searcher with given answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indexer.query.parse import plain_text
from indexer.query.query import Query
from indexer.search.api import Allowed, Hit, SearchResult, SimilarResult, Timings, UnknownImageError


class RankedSearcher:
    """Returns each query's images in the given order, all with the same score."""

    def __init__(self, answers: dict[str, list[str]], ids: Sequence[str]) -> None:
        self.answers = answers
        self.ids = ids
        self.searches: list[tuple[str, int]] = []
        self.substituted: set[bool] = set()

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        text = plain_text(query)
        self.searches.append((text, k))
        self.substituted.add(substitute)
        found = self.answers[text][:k]
        hits = [Hit(rank, image_id, 1.0) for rank, image_id in enumerate(found, 1)]
        return SearchResult(hits, [], Timings(0.0, 2.0, 2.0 if k == 10 else 1000.0))

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        raise UnknownImageError(image_id)

    def metadata(self, image_id: str) -> dict[str, Any]:
        if image_id not in self.ids:
            raise UnknownImageError(image_id)
        return {}

    def __len__(self) -> int:
        return len(self.ids)

    def close(self) -> None:
        pass

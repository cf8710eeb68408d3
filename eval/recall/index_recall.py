"""Text → image recall of a searcher, with its own order of ties: what a user of the index gets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table

from indexer.query.query import Query
from indexer.search.api import Searcher, UnknownImageError
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.metrics import Recall, recall
from sparta.progress import Progress, no_progress

FIRST_HITS = 10  # enough for recall at 10; deeper searches only where the image is missing


@dataclass(frozen=True)
class SearcherRecall:
    """Recall of a searcher over Q captions.

    Attributes:
        recall: shares in percent, and the median rank.
        queries: Q.
        images: in the gallery: all images of the searcher.
        seconds: in all, including deeper searches for images ranked low.
        query_ms: milliseconds of a search for ten hits, tokenising included, on average.
    """

    recall: Recall
    queries: int
    images: int
    seconds: float
    query_ms: float

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        return vars(self) | {"recall": self.recall._asdict()}

    def table(self) -> Table:
        """The figures for a terminal."""
        figures = {
            "R@1": f"{self.recall.at_1:.1f}",
            "R@5": f"{self.recall.at_5:.1f}",
            "R@10": f"{self.recall.at_10:.1f}",
            "median rank": f"{self.recall.median_rank:g}",
            "queries": f"{self.queries:,}",
            "images": f"{self.images:,}",
            "seconds": f"{self.seconds:.1f}",
            "ms per query": f"{self.query_ms:.2f}",
        }
        table = Table(*figures)
        table.add_row(*figures.values())
        return table


def measure_index_recall(
    searcher: Searcher,
    captions: Sequence[CaptionedPhoto],
    depth: int | None = None,
    substitute: bool = True,
    progress: Progress = no_progress,
) -> SearcherRecall:
    """Search with every caption; its one right image is its photo.

    Args:
        searcher: all its images take part, captioned or not.
        captions: the target photos.
        depth: hits at most, by default all images. An image that is not among them counts as
            ranked just behind, and behind the tenth in any case; a median rank up to `depth` is
            exact.
        substitute: whether words that the index lacks are replaced.
        progress: of the stage "search", in queries.

    Raises:
        InputError: if a photo is not in the index.
    """
    _check_photos(searcher, captions)
    depth = depth or len(searcher)
    queries = [(text, photo.image_id) for photo in captions for text in photo.captions]
    ranks, spent = [], 0.0
    start = time.perf_counter()
    for done, (text, image_id) in enumerate(queries, 1):
        rank, milliseconds = _rank(searcher, text, image_id, depth, substitute)
        ranks.append(rank)
        spent += milliseconds
        progress("search", done, len(queries))
    seconds = time.perf_counter() - start
    summary = recall(torch.tensor(ranks))
    return SearcherRecall(summary, len(queries), len(searcher), seconds, spent / len(queries))


def _check_photos(searcher: Searcher, captions: Sequence[CaptionedPhoto]) -> None:
    missing = [photo.image_id for photo in captions if not _has(searcher, photo.image_id)]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(captions)} captioned photos are not in the index, "
            f"{missing[0]!r} for one: index them, or choose the --split that the index contains"
        )


def _has(searcher: Searcher, image_id: str) -> bool:
    try:
        searcher.metadata(image_id)
    except UnknownImageError:
        return False
    return True


def _rank(
    searcher: Searcher, query: str, image_id: str, depth: int, substitute: bool
) -> tuple[int, float]:
    """Rank of an image, 1 for the best, and the milliseconds of the first search."""
    k = min(FIRST_HITS, depth)
    result = searcher.search(Query.plain(query), k, substitute=substitute)
    first = result.timings.total_ms
    while True:
        for hit in result.hits:
            if hit.image_id == image_id:
                return hit.rank, first
        if k == depth or len(result.hits) < k:
            return max(depth, FIRST_HITS) + 1, first
        k = min(10 * k, depth)
        result = searcher.search(Query.plain(query), k, substitute=substitute)

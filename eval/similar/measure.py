"""Query by image, measured by the similarity of captions, for several ways to make the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.table import Table

from eval.similar.caption_vectors import caption_vectors
from eval.similar.in_memory import (
    HITS,
    Weighting,
    agreement_of,
    best_hits,
    photo_queries,
    read_impacts,
)
from indexer.search.terms.query_by_image import TERMS as SERVED
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

TERMS = (5, 10, 20, 50, 100, None)  # None: all
BLOCK = 256  # queries at once


@dataclass(frozen=True)
class QueryByImageRow:
    """The result of one way to make a query of a photo.

    Attributes:
        terms: number of terms in the query, None for all.
        counting: weight of a term in the query.
        agreement: mean caption similarity of a photo and its first ten hits.
        error: standard error of the mean difference from the searchers' own way.
    """

    terms: int | None
    counting: Weighting
    agreement: float
    error: float


@dataclass(frozen=True)
class QueryByImageResult:
    """Results for P queries among N images.

    Attributes:
        photos: P.
        images: N.
        random: mean caption similarity with any other photo.
        best: with the ten photos whose captions are most similar.
        rows: one for each way to make the query.
    """

    photos: int
    images: int
    random: float
    best: float
    rows: Sequence[QueryByImageRow]

    def share(self, row: QueryByImageRow) -> float:
        """Where a row lies between random (0) and best (100)."""
        return 100 * (row.agreement - self.random) / (self.best - self.random)

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        rows = [
            {
                "terms": row.terms or "all",
                "counting": row.counting,
                "agreement": row.agreement,
                "error_of_difference": row.error,
                "share": self.share(row),
            }
            for row in self.rows
        ]
        return vars(self) | {"rows": rows}

    def table(self) -> Table:
        """The figures for a terminal."""
        ways = get_args(Weighting)
        table = Table("terms", *ways, title="Agreement of captions, and share of what is possible")
        for terms in TERMS:
            own = [row for row in self.rows if row.terms == terms]
            cells = [
                f"{row.agreement:.4f} ± {row.error:.4f} ({self.share(row):.1f} %)" for row in own
            ]
            table.add_row(str(terms or "all"), *cells)
        table.caption = (
            f"{self.photos:,} photos among {self.images:,}; random {self.random:.4f}, "
            f"best {self.best:.4f}; ± standard error of the difference from {SERVED} terms by share"
        )
        return table


def measure_query_by_image(
    index: Path,
    captions: Sequence[CaptionedPhoto],
    asked: Sequence[str],
    progress: Progress = no_progress,
) -> QueryByImageResult:
    """Search with photos of an index as queries, in every way, by sparse products in memory.

    Args:
        index: folder of at most some ten thousand images.
        captions: of all its images.
        asked: ids of the photos that are queries.
        progress: of the stage "search", in photos.

    Raises:
        InputError: if the folder is no index, or an image has no captions or is not indexed.
    """
    ids, impacts = read_impacts(index)
    places = {image_id: place for place, image_id in enumerate(ids)}
    missing = [image_id for image_id in asked if image_id not in places]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(asked)} captioned photos are not in {index}, "
            f"{missing[0]!r} for one: choose the --split that the index holds"
        )
    by_term = impacts.T.tocsr()
    words = caption_vectors(ids, captions)
    rows = np.array([places[image_id] for image_id in asked])
    ways = [(terms, counting) for terms in TERMS for counting in get_args(Weighting)]
    found = np.zeros((len(ways), len(rows)))
    random = best = 0.0
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        agreement = (words[block] @ words.T).toarray()
        agreement[np.arange(len(block)), block] = 0
        random += float(agreement.sum()) / (len(ids) - 1)
        best += float(np.sort(agreement, axis=1)[:, -HITS:].mean(axis=1).sum())
        for way, (terms, counting) in enumerate(ways):
            hits = best_hits(by_term, block, photo_queries(impacts[block], terms, counting))
            found[way, start : start + len(block)] = agreement_of(agreement, hits)
        progress("search", start + len(block), len(rows))
    apart = found - found[ways.index((SERVED, "share"))]
    means, errors = found.mean(axis=1).tolist(), (apart.std(axis=1) / len(rows) ** 0.5).tolist()
    measured = [QueryByImageRow(*way, *one) for way, *one in zip(ways, means, errors, strict=True)]
    return QueryByImageResult(len(rows), len(ids), random / len(rows), best / len(rows), measured)

"""Merges the answers of shards: the order of one index, to the last tie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from indexer.filters.facets import Value
from indexer.search.api import Condition, Hit, Matching, SearchResult
from indexer.search.browsing import Page, Survey


def best_hits(results: Sequence[SearchResult], k: int, without: Sequence[str] = ()) -> list[Hit]:
    """The k best hits of all shards, but for some images.

    Args:
        results: of all shards, each with its best hits; their ranks are changed.
        k: hits at most.
        without: ids of images to leave out.
    """
    hits = [hit for result in results for hit in result.hits if hit.image_id not in without]
    hits.sort(key=lambda hit: (-hit.score, hit.image_id))
    for rank, hit in enumerate(hits[:k], start=1):
        hit.rank = rank
    return hits[:k]


def added_conditions(parts: Sequence[Sequence[Condition]]) -> list[Condition]:
    """The conditions of a query, with the images of all shards."""
    return [
        replace(same[0], images=sum(one.images for one in same))
        for same in zip(*parts, strict=True)
    ]


def merged_surveys(surveys: Sequence[Survey], page: Page) -> Survey:
    """What all shards found; those without a value come last, ties are in the order of ids."""
    found = [pair for one in surveys for pair in zip(one.values, one.hits, strict=True)]
    found.sort(key=lambda pair: pair[1].image_id)
    first = [(value, hit) for value, hit in found if value is not None]
    first.sort(key=lambda pair: pair[0], reverse=page.falling)
    pairs = [*first, *((value, hit) for value, hit in found if value is None)]
    counts: dict[str, Counter[Value]] = {facet: Counter() for facet in page.facets}
    for one in surveys:
        for facet, own in one.counts.items():
            counts[facet].update(own)
    words = surveys[0].matching
    conditions = added_conditions([one.matching.conditions for one in surveys])
    return Survey(
        [hit for _, hit in pairs],
        [value for value, _ in pairs],
        sum(one.total for one in surveys),
        counts,
        Matching(np.empty(0), words.unknown, words.substitutions, conditions),
    )

"""Which segments are merged, and what becomes of deletions meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.columns.image_table import ImageTable
from indexer.columns.live import compaction as merging
from indexer.columns.live.compaction import Merge
from indexer.columns.live.newest import CAPACITY
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import to_merge
from indexer.live.changes import Delete
from tests.indexer.columns.live.images import VOCABULARY, Images, add, build, compact, found


def sizes(*live: int) -> dict[str, tuple[int, int]]:
    return {str(number): (own, own) for number, own in enumerate(live)}


@pytest.mark.parametrize(
    ("segments", "merged"),
    [
        ({}, []),
        (sizes(10**6), []),
        (sizes(10**6, CAPACITY, 7, CAPACITY), []),
        (sizes(10**6, CAPACITY, 7, CAPACITY, 1), ["1", "2", "3", "4"]),
        (sizes(4 * CAPACITY, CAPACITY + 1, 9000, 16_000), ["0", "1", "2", "3"]),
        # The small ones first.
        (sizes(*[4 * CAPACITY] * 4, *[9] * 4), ["4", "5", "6", "7"]),
        ({"a": (100_000, 50_000), "b": (100_000, 49_999)}, ["b"]),
        ({"a": (100, 0)}, []),  # is dropped anyway
    ],
)
def test_segments_of_similar_size_are_merged(
    segments: dict[str, tuple[int, int]], merged: list[str]
) -> None:
    assert to_merge(segments) == merged


def test_a_merge_is_that_of_all_images_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments of interleaved ids, some deleted, become what one build would have made."""
    monkeypatch.setattr(merging, "IMAGES_AT_ONCE", 3)
    rng = np.random.default_rng(0)
    images: Images = {
        f"{number:03}": (
            {"width": number},
            {int(t): int(rng.integers(1, 256)) for t in rng.choice(VOCABULARY, 5, replace=False)},
        )
        for number in range(200)
    }
    index = tmp_path / "index"
    build(index, dict(list(images.items())[::5]), 8)
    for state in range(1, 5):
        own = list(images.items())[state::5]
        added = [add(key, weights, data) for key, (data, weights) in own]
        compact(index, state - 1, added, state)
    gone = list(images)[10:150:7]
    compact(index, 4, map(Delete, gone), 5)
    merge = Merge.due(index, 5, 6)
    assert merge
    steps: list[tuple[str, int, int]] = []
    merge.write(lambda *step: steps.append(step))
    late = next(key for key in images if key not in gone)
    compact(index, 5, [Delete(late)], 7)
    merge.save(7, 8)

    left = {key: one for key, one in images.items() if key not in [*gone, late]}
    assert steps[-1] == ("columns", len(left) + 1, len(left) + 1)
    columns = LiveColumns.open(index, 8, VOCABULARY, 8)
    assert len(columns) == len(left)
    [segment] = columns.segments.all
    table = ImageTable(segment.folder).rows
    assert table.column("id").to_pylist() == sorted([*left, late])
    again = tmp_path / "again"
    build(again, left, 8)
    alone = LiveColumns.open(again, 0, VOCABULARY, 8)
    for term in range(VOCABULARY):
        assert found(columns, {term: 1}, 300) == found(alone, {term: 1}, 300)
    assert Merge.due(index, 8, 9) is None

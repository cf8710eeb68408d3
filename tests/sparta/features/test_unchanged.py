"""Images are taken over where the stamps of their files are the same; `test_job` has the rest."""

from pathlib import Path

import pytest

from sparta.features.record import FeatureSource
from sparta.features.unchanged import Changes, Stamps
from sparta.features.writer import StoreWriter
from tests.sparta.features.test_store import assert_same, image

SOURCE = FeatureSource("region", "detector", "abc", 5, 64)
FIRST = {"a": [1, 1], "b": [1, 1], "c": [1, 1]}


def written(folder: Path, stamps: Stamps) -> StoreWriter:
    return StoreWriter(folder, SOURCE, inputs={"files": str(stamps)}, stamps=stamps)


def test_images_of_the_same_stamps_are_taken_over(tmp_path: Path) -> None:
    first = written(tmp_path / "s", FIRST)
    assert first.unchanged.changes is None
    first.write_shard([image(name) for name in FIRST])
    first.finish()
    stamps = {"b": [1, 1], "c": [1, 2], "d": [1, 1]}
    second = written(tmp_path / "s", stamps)
    assert second.unchanged.changes == Changes(added=1, changed=1, removed=1, kept=1)
    assert [name for name in stamps if name in second.unchanged] == ["b"]
    assert_same(second.unchanged["b"], image("b"))
    with pytest.raises(KeyError):
        second.unchanged["c"]


def test_nothing_is_taken_over_where_stamps_are_damaged(tmp_path: Path) -> None:
    first = written(tmp_path / "s", FIRST)
    first.write_shard([image(name) for name in FIRST])
    first.finish()
    (stamps,) = (tmp_path / "s").glob("stamps-*.json")
    stamps.write_text("{")
    second = written(tmp_path / "s", {"b": [1, 1]})
    assert second.unchanged.changes == Changes(added=0, changed=1, removed=2, kept=0)
    assert "b" not in second.unchanged

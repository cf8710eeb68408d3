import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.base import named_source, without_boxes
from sparta.features.readers.import_store import import_features
from sparta.features.record import ImageFeatures
from sparta.features.skipped import read_skipped
from sparta.features.writer import SHARD_SIZE


class Reader:
    """Images some of which are malformed; one more may bring the process down."""

    def __init__(self, path: Path, ids: Sequence[str], bad: set[int]) -> None:
        self.source = named_source("x", 2)
        self.ids = ids
        self.files: Sequence[Path] = [path]
        self.bad = bad
        self.deadly = -1
        path.touch()

    def __getitem__(self, row: int) -> ImageFeatures:
        if row == self.deadly:
            raise KeyboardInterrupt
        if row in self.bad:
            raise InputError(f"file, line {row + 1}: field: it is bad")
        return without_boxes(self.ids[row], np.full((1, 2), row + 1, np.float16))


def skipped(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "skipped.jsonl").read_text().splitlines()]


def test_bad_images_are_listed_whenever_a_run_breaks(tmp_path: Path) -> None:
    images = 2 * SHARD_SIZE + 10
    bad = {0, 1, SHARD_SIZE, 2 * SHARD_SIZE + 3}
    reader = Reader(tmp_path / "in", [f"{row:05}" for row in range(images)], bad)
    whole = import_features(reader, tmp_path / "whole", skip_bad=True)
    assert len(whole) == images - len(bad)
    for deadly in (5, SHARD_SIZE + 5, 2 * SHARD_SIZE + 5):
        reader.deadly = deadly
        with pytest.raises(KeyboardInterrupt):
            import_features(reader, tmp_path / "broken", skip_bad=True)
    reader.deadly = -1
    again = import_features(reader, tmp_path / "broken", skip_bad=True)
    assert again.fingerprint == whole.fingerprint
    assert again.ids == whole.ids
    assert skipped(tmp_path / "broken") == skipped(tmp_path / "whole")
    assert [line["reason"] for line in skipped(tmp_path / "whole")] == [
        f"file, line {row + 1}: field: it is bad" for row in sorted(bad)
    ]


def test_a_run_that_ended_at_a_bad_image_may_go_on_without_it(tmp_path: Path) -> None:
    ids = [f"{row:05}" for row in range(SHARD_SIZE + 2)]
    reader = Reader(tmp_path / "in", ids, {SHARD_SIZE})
    with pytest.raises(InputError, match=r"line 513: field: it is bad\. Images .* --skip-bad"):
        import_features(reader, tmp_path / "out")
    shown: list[tuple[str, int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        shown.append((stage, done, total))

    store = import_features(reader, tmp_path / "out", progress, skip_bad=True)
    assert shown == [("import", SHARD_SIZE + 2, SHARD_SIZE + 2)]  # the first shard was there
    assert len(store) == SHARD_SIZE + 1
    assert skipped(tmp_path / "out") == [
        {"image_id": ids[SHARD_SIZE], "reason": "file, line 513: field: it is bad"}
    ]


def test_an_id_twice_is_once_in_the_store(tmp_path: Path) -> None:
    store = import_features(
        Reader(tmp_path / "in", ["a", "a", "b"], {1}), tmp_path / "out", skip_bad=True
    )
    assert store.ids == ["a", "b"]
    assert [line["image_id"] for line in skipped(tmp_path / "out")] == ["a"]


def test_only_bad_images_make_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no image could be used; .*skipped\.jsonl says why"):
        import_features(Reader(tmp_path / "in", ["a"], {0}), tmp_path / "out", skip_bad=True)


def test_an_image_whose_id_would_reach_another_one_is_malformed(tmp_path: Path) -> None:
    ids = ["/abs.jpg", "a.jpg", "b/../a.jpg"]
    with pytest.raises(InputError, match=r"an empty part between slashes.*--skip-bad"):
        import_features(Reader(tmp_path / "in", ids, set()), tmp_path / "out")
    store = import_features(Reader(tmp_path / "in", ids, set()), tmp_path / "out", skip_bad=True)
    assert store.ids == ["a.jpg"]
    assert [one.image_id for one in read_skipped(store.folder)] == ["/abs.jpg", "b/../a.jpg"]

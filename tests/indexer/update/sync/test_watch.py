"""A folder is followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.update.sync.job import PhotoSync, SyncReport
from indexer.update.sync.scan import Scan
from indexer.update.sync.seen import Seen
from indexer.update.sync.watch import stable, watch
from sparta.features.extract.listing import Stamp
from tests.indexer.update.sync.conftest import draw, images_of


def test_photos_count_once_they_are_the_same_twice() -> None:
    first, second = Stamp(1, 1), Stamp(2, 2)
    seen = {one: Seen(first) for one in ("same", "changing", "settled", "back", "gone")}
    before = {
        "same": first,
        "changing": first,
        "settled": second,
        "new": second,
        "gone soon": first,
    }
    before |= {"back": first}
    now = {"same": first, "changing": second, "settled": second, "new": second, "newer": first}
    found = stable(Scan(now, ["x/"], {"y": "z"}), Scan(before, [], {}), seen)
    assert found.photos == {
        "same": first,
        "changing": first,
        "settled": second,
        "new": second,
        "back": first,
        "gone": first,
    }
    assert (found.closed, found.problems) == (["x/"], {"y": "z"})


def test_nothing_has_vanished_while_something_arrives() -> None:
    first, second = Stamp(1, 1), Stamp(2, 2)
    seen = {"gone": Seen(first), "same": Seen(first)}
    before = Scan({"same": first}, [], {})
    arriving = Scan({"same": first, "new": second}, [], {})
    assert list(stable(arriving, before, seen).photos) == ["gone", "same"]
    assert list(stable(arriving, arriving, seen).photos) == ["new", "same"]
    assert list(stable(before, before, seen).photos) == ["same"]


def test_following(job: Callable[[], PhotoSync], built: Path, photos: Path, tmp_path: Path) -> None:
    found = job()
    found.run()
    steps = iter(range(100))
    reports: list[SyncReport] = []
    notices: list[str] = []

    def pause(_: float) -> None:
        step = next(steps)
        if step == 0:
            draw(photos / "new.png", 5)
        elif step == 4:
            assert "new.png" in images_of(built)
            photos.rename(tmp_path / "elsewhere")
        elif step == 8:
            (tmp_path / "elsewhere").rename(photos)
            (photos / "new.png").rename(photos / "newer.png")
        elif step == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(found, 0.1, reports.append, notices.append, pause=pause)
    assert [(one.added, one.moved) for one in reports] == [(1, 0), (0, 1)]
    assert len(notices) == 1 and "does not exist" in notices[0]
    assert sorted(images_of(built)) == ["0.png", "1.png", "2.png", "newer.png"]


def test_a_photo_that_cannot_be_read_any_more_is_said_once(
    job: Callable[[], PhotoSync], built: Path, photos: Path
) -> None:
    steps = iter(range(100))
    reports: list[SyncReport] = []

    def pause(_: float) -> None:
        step = next(steps)
        if step == 2:
            (photos / "0.png").unlink()
            (photos / "0.png").symlink_to("0.png")
        elif step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(job(), 0.1, reports.append, lambda _: None, pause=pause)
    assert [[one.image_id for one in report.skipped] for report in reports] == [["0.png"]]
    assert sorted(images_of(built)) == ["0.png", "1.png", "2.png"]

"""How photos differ from what was seen of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from indexer.update.sync.plan import Plan, compare, content_hash
from indexer.update.sync.scan import Scan, scan_photos
from indexer.update.sync.seen import Seen
from sparta.features.extract.listing import Stamp


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def write(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = root / f"{name}.jpg"
        path.write_text(content)
        os.utime(path, ns=(1, 1000 + len(name)))


def seen_now(root: Path, hashed: bool = True) -> Mapping[str, Seen]:
    return {
        image_id: Seen(stamp, content_hash(root / image_id) if hashed else None)
        for image_id, stamp in scan_photos(root).photos.items()
    }


def test_files_with_one_content_are_paired_one_by_one(root: Path) -> None:
    write(root, a="same", b="same", c="else")
    seen = seen_now(root)
    for name in "abc":
        (root / f"{name}.jpg").unlink()
    write(root, x="same", y="same", z="same")
    plan = compare(root, scan_photos(root), seen)
    assert plan.moved == {"x.jpg": "a.jpg", "y.jpg": "b.jpg"}
    assert (plan.new, plan.vanished) == (["z.jpg"], ["c.jpg"])


def test_content_that_was_not_read_is_known_by_size_and_time(root: Path) -> None:
    write(root, a="same", b="other", c="other")
    seen = seen_now(root, hashed=False)
    for name in "abc":
        (root / f"{name}.jpg").rename(root / f"{name}{name}.jpg")
    plan = compare(root, scan_photos(root), seen)
    assert plan.moved == {"aa.jpg": "a.jpg"}
    assert (plan.new, plan.vanished) == (["bb.jpg", "cc.jpg"], ["b.jpg", "c.jpg"])
    os.utime(root / "aa.jpg", ns=(1, 5))
    assert compare(root, scan_photos(root), seen).moved == {}


def test_a_folder_was_moved(root: Path) -> None:
    write(root, a="same", b="else")
    os.utime(root / "a.jpg", ns=(1, 5))
    os.utime(root / "b.jpg", ns=(1, 5))
    seen = seen_now(root, hashed=False)
    (root / "far").mkdir()
    for name in "ab":
        (root / f"{name}.jpg").rename(root / "far" / f"{name}.jpg")
    plan = compare(root, scan_photos(root), seen)
    assert plan.moved == {"far/a.jpg": "a.jpg", "far/b.jpg": "b.jpg"}


def test_a_file_that_cannot_be_read_is_no_former_one(root: Path) -> None:
    write(root, a="same")
    seen = seen_now(root)
    (root / "a.jpg").unlink()
    scan = Scan({"b.jpg": Stamp(4, 1)}, [], {})
    plan = compare(root, scan, seen)
    assert (plan.new, plan.vanished) == (["b.jpg"], ["a.jpg"])


def test_what_cannot_be_looked_into_has_not_vanished(root: Path) -> None:
    seen = {"a/x.jpg": Seen(Stamp(1, 1)), "b/y.jpg": Seen(Stamp(1, 1)), "c.jpg": Seen(Stamp(1, 1))}
    plan = compare(root, Scan({"c.jpg": Stamp(1, 1)}, ["a/"], {}), seen)
    assert plan.vanished == ["b/y.jpg"]


def test_when_a_disk_is_rather_not_mounted(root: Path) -> None:
    assert Plan(seen=10, found=8, vanished=["a"] * 2).alarm(root) is None
    assert Plan(seen=10, found=7, vanished=["a"] * 3).alarm(root) == (
        f"3 of 10 photos have vanished from {root}"
    )
    assert Plan(seen=0, found=0).alarm(root) is None
    assert Plan(seen=2, found=0).alarm(root) == (
        f"{root} holds no photo any more, and 2 were there before"
    )
    missing = root / "missing"
    assert Plan(seen=2, found=0).alarm(missing) == (
        f"{missing} does not exist, and 2 were there before"
    )

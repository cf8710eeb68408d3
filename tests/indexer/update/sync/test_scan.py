"""What is in a folder of photos."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indexer.update.sync.scan import Scan, scan_photos
from sparta.features.extract.listing import Stamp


def test_photos_below_a_folder(tmp_path: Path) -> None:
    for name in ("b.jpg", "a/c.PNG", "a/notes.txt", "a/deep/d.webp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, ns=(5, 7))
    (tmp_path / "a" / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    broken = os.fsdecode(b"\xff.jpg")
    (tmp_path / "a" / broken).touch()
    scan = scan_photos(tmp_path)
    assert list(scan.photos) == ["a/c.PNG", "a/deep/d.webp", "b.jpg"]
    assert scan.photos["b.jpg"] == Stamp(1, 7)
    assert scan.closed == []
    assert scan.problems == {
        "a/\\xff.jpg": "the file name is not UTF-8",
        "a/dangling.jpg": "No such file or directory",
    }
    assert scan.found == 5
    assert list(scan_photos(tmp_path, "a/deep/").photos) == ["a/deep/d.webp"]
    nothing = Scan({}, [], {})
    assert scan_photos(tmp_path / "missing") == scan_photos(tmp_path, "missing/") == nothing


def test_what_is_in_a_folder_that_cannot_be_read_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    scan = os.scandir

    def closed(path: str) -> object:
        if str(path).endswith(("a", "whole")):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    found = scan_photos(tmp_path)
    assert (found.closed, found.problems) == (["a/"], {"a": "Permission denied"})
    assert found.hides("a/b.jpg") and not found.hides("b.jpg")
    assert scan_photos(tmp_path / "whole").hides("b.jpg")

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

from sparta.disk import check_room, full_disk_reported
from sparta.errors import InputError


def test_room_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2 * 10**9))
    check_room(tmp_path / "absent" / "out", 2 * 10**9)
    words = r"out needs about 3\.5 GB more, the disk has 2\.0 GB free: free some room, or choose"
    with pytest.raises(InputError, match=words):
        check_room(tmp_path / "absent" / "out", 3_500_000_000)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "a/b"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("Lucene cannot write: No space left on device"),
        RuntimeError("Error: write failed: No space left on device"),
        OSError("1000 requested and 512 written"),
    ],
)
def test_a_full_disk_is_one_line(error: Exception) -> None:
    words = r"^out: the disk is full: .* start again"
    with pytest.raises(InputError, match=words), full_disk_reported(Path("out")):
        raise error


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(OSError, match="denied"), full_disk_reported(Path("out")):
        raise PermissionError("denied")


def test_what_the_system_and_numpy_raise() -> None:
    full = Path("/dev/full")
    if full.exists():
        with (
            pytest.raises(InputError, match="the disk is full"),
            full_disk_reported(Path("out")),
            full.open("wb", buffering=0) as file,
        ):
            np.zeros(100_000).tofile(file)

"""Errors of the disk at chosen calls: of this process, below one folder."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Of `os`, which argument is the path or the handle.
CALLS = {"fsync": 0, "write": 0, "ftruncate": 0, "posix_fallocate": 0, "mkdir": 0, "link": 1,
         "rename": 1, "replace": 1, "symlink": 1, "unlink": 0, "rmdir": 0}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Disk:
    """Counts calls that change something below a folder, and fails at one, or from it on."""

    def __init__(self, folder: Path, fail_at: int, number: int, stays: bool) -> None:
        self._folder, self._fail_at, self._number, self._stays = folder, fail_at, number, stays
        self.calls: list[str] = []

    def check(self, name: str, place: Any) -> None:
        if isinstance(place, int):
            try:
                place = Path(f"/proc/self/fd/{place}").readlink()
            except OSError:
                return
        path = str(Path.cwd() / os.fsdecode(place))
        if not path.startswith(f"{self._folder}/"):
            return
        self.calls.append(f"{name} {path[len(str(self._folder)) :]}")
        count = len(self.calls) - 1
        if count == self._fail_at or (self._stays and count > self._fail_at >= 0):
            raise OSError(self._number, os.strerror(self._number), path)


@contextmanager
def failing(
    folder: Path, fail_at: int = -1, number: int = errno.EIO, stays: bool = False
) -> Iterator[Disk]:
    """Let the call of this number below a folder fail; once, or all that follow, too."""
    disk = Disk(folder, fail_at, number, stays)

    def wrapped(name: str, call: Callable[..., Any], place: int) -> Callable[..., Any]:
        def checked(*args: Any, **options: Any) -> Any:
            if options.get("dir_fd") is None:
                disk.check(name, args[place])
            return call(*args, **options)

        return checked

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if not isinstance(file, int) and set(mode) & {*"wax+"}:
            disk.check("open", file)
        return io_open(file, mode, *args, **options)

    def os_opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & WRITES and options.get("dir_fd") is None:
            disk.check("open", path)
        return os_open(path, flags, *args, **options)

    io_open, os_open = io.open, os.open
    with pytest.MonkeyPatch.context() as patch:
        for name, place in CALLS.items():
            patch.setattr(os, name, wrapped(name, getattr(os, name), place))
        patch.setattr(os, "open", os_opened)
        for module in (io, builtins):
            patch.setattr(module, "open", opened)
        yield disk

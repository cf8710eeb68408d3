"""One writer per folder: a lock that names its holder and ends with the holder's process."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sparta.errors import InputError

log = logging.getLogger(__name__)

_held: set[int] = set()  # open lock files of this process


def lock_path(folder: Path) -> Path:
    """The lock file of a folder, beside it; of a link, that of the folder it leads to."""
    named = folder.resolve() if folder.is_symlink() or not folder.name else folder
    return named.with_name(f".{named.name}.lock")


@contextmanager
def writing(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Be the only writer of a folder until the block ends.

    The kernel releases the lock of a process that ends in whatever way, so that a lock file that
    a killed process left is no obstacle.

    Args:
        folder: to be written; need not exist.
        wait: wait for another writer to end, instead of raising.

    Raises:
        InputError: if another writer holds the lock, naming its process, host and start.
    """
    path = lock_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _acquire(path, folder, wait)
    _held.add(handle)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        _held.discard(handle)
        os.close(handle)


def _acquire(path: Path, folder: Path, wait: bool) -> int:
    """Open and lock a lock file, and write this process's name into it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, path, folder, wait)
            if _is_current(handle, path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, _this_process().encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the holder we waited for removed this file: lock the next one


def _lock(handle: int, path: Path, folder: Path, wait: bool) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problem = f"{folder} is being written by {_holder(path)}"
        if not wait:
            raise InputError(f"{problem}: wait until it ends, or stop it") from None
        log.warning("%s: waiting for it", problem)
        fcntl.flock(handle, fcntl.LOCK_EX)


def _is_current(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _this_process() -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})


def _holder(path: Path) -> str:
    """The process that holds a lock, in words."""
    try:
        found = json.loads(path.read_text())
        return f"process {found['pid']} on {found['host']} since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # between its two steps of taking the lock
        return "another process"


def _release_in_child() -> None:
    """Close the lock files that a forked process inherits: it would hold them after its parent."""
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)

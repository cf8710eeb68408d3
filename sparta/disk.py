"""Room on a disk: estimated before long work, and a full disk in one line."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparta.errors import InputError


def check_room(out: Path, needed: int) -> None:
    """Refuse work that would fill the disk.

    Args:
        out: a folder to be written.
        needed: bytes, estimated.

    Raises:
        InputError: if the disk has less free.
    """
    whole = out.absolute()
    folder = next(path for path in (whole, *whole.parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{out} needs about {_gigabytes(needed)} more, the disk has {_gigabytes(free)} free: "
            "free some room, or choose another --out; what is finished is used again"
        )


@contextmanager
def full_disk_reported(out: Path) -> Iterator[None]:
    """Report that the disk is full in one line, whichever library notices it.

    Raises:
        InputError: if it is.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        raise InputError(
            f"{out}: the disk is full: free some room and start again; what is finished is used "
            "again"
        ) from error


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # Of Java, Arrow and FAISS, and of NumPy, which counts the items that it could write.
    text = str(error)
    return "No space left on device" in text or " requested and " in text


def _gigabytes(count: int) -> str:
    return f"{count / 10**9:,.1f} GB"

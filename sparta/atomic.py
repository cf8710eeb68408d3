"""Replace a folder in one step, so that a reader never finds half of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from sparta.errors import InputError


def replace_folder(new: Path, out: Path) -> None:
    """Rename a finished folder to `out`; a folder already there stays in use until then.

    Everything in the new folder is synced to the disk first. A folder cannot be renamed over one
    that is not empty, so the old one is renamed to `OUT.old` and then removed; if the machine
    stops between the renames, `finish_replacement` restores it.

    Args:
        new: the finished folder, on the same file system as `out`.
        out: the folder's place.
    """
    aside = _aside(out)
    _sync_tree(new)
    if out.exists():
        out.rename(aside)
    new.rename(out)
    _sync(out.parent)
    if aside.exists():
        shutil.rmtree(aside)


def finish_replacement(out: Path, is_complete: Callable[[Path], bool]) -> None:
    """Clean up after a `replace_folder` that was interrupted: restore or remove `OUT.old`.

    Args:
        out: the folder's place.
        is_complete: whether a folder is one that `replace_folder` may have moved aside; any other
            is left alone.

    Raises:
        InputError: if `OUT.old` is some other folder, and in the way of the next replacement.
    """
    aside = _aside(out)
    if not is_complete(aside):
        if aside.exists() and out.exists():
            raise InputError(f"{aside} is in the way of replacing {out}: move or remove it")
    elif out.exists():
        shutil.rmtree(aside)
    else:
        aside.rename(out)


def _aside(out: Path) -> Path:
    return out.with_name(out.name + ".old")


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

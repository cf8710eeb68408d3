"""Replace a folder in one step, so that a reader never finds half of one.

A folder is made inside a *work folder* beside its place: hidden, of a name nobody uses, with a
marker file. What a killed run left is recognised by that marker; nothing without it is removed.
Only the one writer of a folder (`sparta.lock`) may call what is here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from sparta.errors import InputError

MARKER = "visualsparta-work.json"
REPLACED = "replaced"  # in a work folder: what was at the place before


def make_work(out: Path) -> Path:
    """A new work folder for `out`, on the same file system."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f"{_prefix(out)}{os.getpid()}-", dir=out.parent))
    (work / MARKER).write_text(json.dumps({"work_of": out.name}))
    return work


def check_name(out: Path) -> None:
    """Refuse a path that no folder can be moved to, such as "" or "..".

    Raises:
        InputError: if the path ends in no name.
    """
    if out.name in ("", ".."):
        raise InputError(f"--out {str(out)!r} names no folder: give a path that ends in a name")


@contextmanager
def work_folder(out: Path) -> Iterator[Path]:
    """A new work folder for `out`, removed at the end; what earlier runs left is cleaned first."""
    recover(out)
    for left in find_work(out):
        remove_work(left)
    work = make_work(out)
    try:
        yield work
    finally:
        remove_work(work)


def find_work(out: Path) -> list[Path]:
    """The work folders of `out` that earlier runs left."""
    return [path for path in _candidates(out) if _is_work(path, out)]


def remove_work(work: Path) -> None:
    """Remove a work folder, its marker last; what cannot be removed now is left for the next run.

    A process of a killed run may still be writing there.
    """
    with suppress(OSError):
        for entry in work.iterdir():
            if entry.name != MARKER:
                remove_entry(entry)
        if [entry.name for entry in work.iterdir()] == [MARKER]:
            (work / MARKER).unlink()
            work.rmdir()


def recover(out: Path) -> None:
    """Put back what an interrupted `replace_folder` had moved aside, if `out` is missing."""
    for work in find_work(out):
        if os.path.lexists(work / REPLACED) and not os.path.lexists(out):
            (work / REPLACED).rename(out)
            sync(out.parent)
    for path in _candidates(out):
        # Killed, or the disk full, while its marker was written or removed.
        if {entry.name for entry in path.iterdir()} <= {MARKER}:
            (path / MARKER).unlink(missing_ok=True)
            path.rmdir()


def replace_folder(new: Path, out: Path, work: Path) -> None:
    """Rename a finished folder to `out`; a folder already there stays in use until then.

    Everything in the new folder is synced to the disk first, and the renames after. The old folder
    moves into the work folder; if the machine stops between the two renames, `recover` puts it
    back.

    Args:
        new: the finished folder, in the work folder.
        out: its place.
        work: the work folder, which the caller removes next.

    Raises:
        OSError: if it cannot be synced or moved; `out` is then what it was.
    """
    _sync_tree(new)
    try:
        if os.path.lexists(out):
            out.rename(work / REPLACED)
            sync(work)
        new.rename(out)
    except BaseException:
        recover(out)
        raise
    sync(work)
    sync(out.parent)


def _prefix(out: Path) -> str:
    return f".{out.name}.work-"


def _candidates(out: Path) -> list[Path]:
    """Folders that are named like work folders of `out`."""
    if not out.parent.is_dir():
        return []
    pattern = re.compile(re.escape(_prefix(out)) + r"\d+-[a-z0-9_]{8}")
    return [path for path in out.parent.iterdir() if pattern.fullmatch(path.name) and path.is_dir()]


def _is_work(path: Path, out: Path) -> bool:
    try:
        return bool(json.loads((path / MARKER).read_text()) == {"work_of": out.name})
    except (OSError, ValueError):
        return False


def remove_entry(path: Path) -> None:
    """Remove a file or a folder of a work folder, as far as that is possible now."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

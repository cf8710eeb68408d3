"""Snapshots of an index, and indexes out of snapshots."""

from __future__ import annotations

import os
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from indexer.care.copies import copy_index
from indexer.manifest import Manifest, is_index
from indexer.store.commit import Commit
from indexer.verify import verify_index
from sparta.atomic import check_name, replace_folder, sync, work_folder
from sparta.disk import full_disk_reported
from sparta.errors import InputError
from sparta.lock import writing
from sparta.progress import Progress, no_progress


def take_snapshot(index: Path, out: Path) -> Commit:
    """Copy an index as of its newest commit; see `copy_index`.

    Args:
        index: the index folder, which may be searched and written to meanwhile.
        out: the snapshot, an index itself; must not exist.

    Returns:
        the commit.

    Raises:
        InputError: if there is something at `out`, the folder is not an index or is damaged, or
            the disk is full.
    """
    Manifest.read(index)
    check_name(out)
    if out.resolve().is_relative_to(index.resolve()):
        raise InputError(f"{out} is in the index: give a folder beside it")
    with writing(out), full_disk_reported(out):
        if os.path.lexists(out):
            raise InputError(f"{out} exists: give a new folder for the snapshot")
        return _place(index, out)


def restore_snapshot(snapshot: Path, index: Path, progress: Progress = no_progress) -> Path | None:
    """Put a snapshot in the place of an index, or where none is.

    Args:
        snapshot: is checked whole before anything is changed, and stays as it is.
        index: the index folder, or a name that stands for it; must not exist, or be an index,
            which is moved aside.
        progress: stages of `verify_index`.

    Returns:
        where the former index is, None if there was none.

    Raises:
        InputError: if the snapshot is damaged, something else is at `index`, another process
            writes it, or the disk is full.
    """
    if index.is_symlink() and index.exists():
        index = index.resolve()  # of a name the index that it stands for, which is locked
    check_name(index)
    if index.resolve() == snapshot.resolve():
        raise InputError(f"{index} is the snapshot itself: give another folder")
    if problems := verify_index(snapshot, progress):
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise InputError(f"{snapshot} is not restored: {problems[0]}{more}")
    with writing(index), full_disk_reported(index):
        if not os.path.lexists(index):
            _place(snapshot, index)
            return None
        if not is_index(index):
            raise InputError(f"{index} is something else than an index: give another folder")
        aside = _aside(index)
        with work_folder(index) as work:
            copy_index(snapshot, work / "copy")
            index.rename(aside)
            try:
                replace_folder(work / "copy", index, work)
            except BaseException:
                aside.rename(index)
                raise
        return aside


def _place(source: Path, out: Path) -> Commit:
    """A copy at a place where nothing is, whole or not at all."""
    with work_folder(out) as work:
        commit = copy_index(source, work / "copy")
        replace_folder(work / "copy", out, work)
    sync(out.parent)
    return commit


def _aside(index: Path) -> Path:
    name = f"{index.name}.before-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(path for path in map(index.with_name, names) if not os.path.lexists(path))

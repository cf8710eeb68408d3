"""Copies of an index that share its files."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from indexer.dense.added import PREFIX
from indexer.dense.manifest import dense_folder, dense_names
from indexer.manifest import Manifest
from indexer.parts import LUCENE, MANIFEST, UPLOADS
from indexer.state import index_version, place_of
from indexer.store.commit import (
    LOGS,
    SEGMENTS,
    Commit,
    commit_content,
    log_numbers,
    log_path,
    lucene_commit,
    parse_commit,
    segment_folder,
)
from indexer.store.given import FILE as GIVEN
from indexer.update.sync.seen import SYNC
from sparta.errors import InputError

ATTEMPTS = 20  # a writer commits once a second, and replaces few files each time
# The disk, or its number of links to a file, does not allow another link.
NO_LINK = {errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP}


def copy_index(index: Path, copy: Path) -> Commit:
    """Copy an index as of its newest commit, while it is searched and written to.

    Files that never change are linked, or copied where they cannot be. The change log, to which
    a writer appends, is copied with all that was acknowledged.

    Args:
        index: the index folder.
        copy: must not exist; its parent must.

    Returns:
        the commit.

    Raises:
        InputError: if the folder is not an index, is damaged, or changes faster than it is copied.
        OSError: if the disk is full.
    """
    index = index.resolve()  # an alias may be switched meanwhile
    for _ in range(ATTEMPTS):
        state = _state(index)
        copy.mkdir()
        try:
            commit = _copy(index, copy)
            # A whole index may have taken the place of this one, or a copy of it.
            place, version, _ = _state(index)
            if (place, version) == (state[0], index_version(copy)):
                return commit
        except (FileNotFoundError, InputError):
            if _state(index) == state:
                raise
        shutil.rmtree(copy)
    raise InputError(f"{index} changes faster than it can be copied: try again")


def _state(index: Path) -> tuple[int, str, bytes]:
    Manifest.read(index)
    return place_of(index), index_version(index), commit_content(index)


def _copy(index: Path, copy: Path) -> Commit:
    manifest = Manifest.read(index)
    commit = parse_commit(commit_content(index), index)
    names = [MANIFEST, *manifest.parts, *_below(index, index / LUCENE)]
    grown: list[str] = []  # files that a writer appends to
    for name in dense_names(index):
        for path in _below(index, dense_folder(index, name)):
            (grown if Path(path).name.startswith(PREFIX) else names).append(path)
    names += _below(index, index / SYNC)
    lucene = lucene_commit(index)
    entries = [*commit.segments.entries.items()]
    entries += lucene.segments.entries.items() if lucene else ()
    for name, entry in entries:
        names += _below(index, segment_folder(index, name))
        names += [f"{SEGMENTS}/{entry.deleted}"] if entry.deleted else []
    for name in dict.fromkeys(names):
        link_file(index / name, copy / name)
    if numbers := sorted(log_numbers(index)):
        (copy / LOGS).mkdir()
        for number in numbers:  # the last one grows meanwhile
            if number >= commit.segments.log:
                shutil.copyfile(log_path(index, number), log_path(copy, number))
    for name in sorted(grown):  # origins before their vectors, which are written first
        shutil.copyfile(index / name, copy / name)
    if (index / GIVEN).is_file():  # after the log, whose changes it is about
        shutil.copyfile(index / GIVEN, copy / GIVEN)
    link_uploads(index, copy)  # as well
    Manifest.open(copy)
    commit.save(copy)
    return commit


def link_uploads(index: Path, copy: Path) -> None:
    """Link the photos that were sent to a server of an index, unless they are there."""
    for path in uploads_of(index):
        if not (copy / path.relative_to(index)).exists():
            link_file(path, copy / path.relative_to(index))


def uploads_of(index: Path) -> list[Path]:
    """The photos that were sent to a server of an index."""
    found = (index / UPLOADS).rglob("*")
    return [path for path in found if os.path.isfile(path) and path.name[:1] != "."]  # noqa: PTH113


def _below(index: Path, folder: Path) -> Iterator[str]:
    """The files of a folder of an index, by their paths in the index."""
    for path in folder.rglob("*"):
        if os.path.isfile(path):  # noqa: PTH113, which fails for some links
            yield path.relative_to(index).as_posix()


def link_file(source: Path, target: Path) -> None:
    """Link a file, or copy it where the disk does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        shutil.copyfile(source, target)

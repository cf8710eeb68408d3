"""Copies of an index that share its files: snapshots, restored ones; and names for indexes."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain, count
from pathlib import Path

from indexer.dense.manifest import FOLDER as DENSE
from indexer.dense.manifest import dense_folder, dense_names
from indexer.dense.vectors import PREFIX
from indexer.manifest import (
    LUCENE,
    MANIFEST,
    SYNC,
    UPLOAD,
    UPLOADS,
    Manifest,
    index_folders,
    is_index,
    is_sharded,
    located,
    uploads_of,
)
from indexer.state import index_version, place_of
from indexer.store.commit import (
    COMMIT,
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
from indexer.store.snapshot import Snapshot
from indexer.update.writer import writing_whole
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.record import SKIPPED
from sparta.files import (
    UnsureError,
    can_move,
    check_name,
    files_below,
    find_work,
    full_disk_reported,
    is_free,
    notes_of,
    recover,
    remove_entry,
    remove_work,
    replace_folder,
    sync,
    work_folder,
    writing,
)
from sparta.json_values import JsonValue
from sparta.progress import Progress, no_progress

ATTEMPTS = 20  # a writer commits once a second, and replaces few files each time
_INNER = "index-{:03d}"  # a folder in one that cannot be replaced; see `located`
# The disk, or its number of links to a file, does not allow another link.
NO_LINK = {errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP}


def copy_index(index: Path, copy: Path) -> Commit:
    """Copy an index as of its newest commit, while it is searched and written to.

    Files that never change are linked, or copied where they cannot be. The change log, to which a
    writer appends, is copied with all that was acknowledged. Shards are copied one after another.
    Raises InputError if the folder is not an index, is damaged, or changes faster than it is
    copied; OSError if the disk is full.
    """
    index = located(index).resolve()  # an alias may be switched meanwhile
    if is_sharded(index):
        return _copy_shards(index, copy)
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


def _copy_shards(index: Path, copy: Path) -> Commit:
    """Returns a commit with the sum of the shards' versions, as of a searcher of all."""
    folders, place = index_folders(index), place_of(index)
    copy.mkdir()
    for name in (MANIFEST, *_below(index, index / SYNC)):  # what was seen before what is there
        link_file(index / name, copy / name)
    commits = [copy_index(folder, copy / folder.name) for folder in folders]
    if place_of(index) != place:
        raise InputError(f"{index} was replaced while it was copied: try again")
    return replace(commits[0], version=sum(one.version for one in commits))


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
    for name in sorted(grown):  # content ids before their vectors, which are written first
        shutil.copyfile(index / name, copy / name)
    if (index / GIVEN).is_file():  # after the log, whose changes it is about
        shutil.copyfile(index / GIVEN, copy / GIVEN)
    link_uploads(index, copy)  # as well
    Manifest.open(copy)
    commit.save(copy)
    return commit


def link_uploads(index: Path, copy: Path) -> None:
    """Link the photos that were sent to a server of an index, unless they are there.

    Those of shards go to the shards of the copy that have their images; nobody's to the first.
    """
    folders, places = index_folders(copy), dict[str, list[Path]]()
    paths = {
        path.relative_to(one / UPLOADS).as_posix(): path
        for one in index_folders(index)
        for path in uploads_of(one)
    }
    for folder in folders if paths and len(folders) > 1 else ():
        images = Snapshot.open(folder)
        for document in images.live_documents().tolist():
            if name := images.stored(document).metadata.get(UPLOAD):
                places.setdefault(name, []).append(folder)
    for name, path in paths.items():
        for folder in places.get(name, folders[:1]):
            if not (folder / UPLOADS / name).exists():
                link_file(path, folder / UPLOADS / name)


def _below(index: Path, folder: Path) -> Iterator[str]:
    """The files of a folder of an index, by their paths in the index."""
    return (path.relative_to(index).as_posix() for path in files_below(folder))


def link_file(source: Path, target: Path) -> None:
    """Link a file, or copy it where the disk does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        shutil.copyfile(source, target)


def take_snapshot(index: Path, out: Path) -> Commit:
    """Copy an index, as `copy_index`, to a folder that must not exist.

    Raises InputError if there is something at `out`, the index is damaged or the disk is full.
    """
    Manifest.of(index)
    check_name(out)
    if out.resolve().is_relative_to(index.resolve()):
        raise InputError(f"{out} is in the index: give a folder beside it")
    with writing(out), full_disk_reported(out):
        if os.path.lexists(out):
            raise InputError(f"{out} exists: give a new folder for the snapshot")
        with work_folder(out) as work:
            commit = copy_index(index, work / "copy")
            replace_folder(work / "copy", out, work)
        return commit


def restore_snapshot(snapshot: Path, index: Path, progress: Progress = no_progress) -> Path | None:
    """Put a snapshot in the place of an index, or where none is; an index there is moved aside.

    The snapshot is checked whole before anything is changed, with the progress of `verify_index`.
    Returns where the former index is, None if there was none. Raises InputError if the snapshot is
    damaged, something else is at `index`, another process writes it, or the disk is full.
    """
    if index.is_symlink() and index.exists():
        index = index.resolve()  # of a name the index that it stands for, which is locked
    check_name(index)
    snapshot = located(snapshot)
    if located(index).resolve() == snapshot.resolve():
        raise InputError(f"{index} is the snapshot itself: give another folder")
    if problems := verify_index(snapshot, progress):
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise InputError(f"{snapshot} is not restored: {problems[0]}{more}")
    with replacing(index) as place, full_disk_reported(index):
        if os.path.lexists(index) and not is_index(index) and not is_free(index):
            raise InputError(f"{index} is something else than an index: give another folder")
        aside, notes = None, dict[str, JsonValue](moved=[])
        if is_index(index):
            aside = _aside(index) if place == index else located(index)
            notes |= {"keep": aside.name} if place == index else {}
        with work_folder(place, **notes) as work:
            copy_index(snapshot, work / "copy")
            put(work / "copy", index, place, work)
        return aside


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Be the only writer of an index folder; yields where to `put` another index.

    This is `out` itself if one step can replace it, as most folders. Else, as in a mount point, it
    is the next one of the folders in `out` that `located` tells of; an index in `out` moves into
    the first one.

    Raises InputError if it is a shard, or another process writes it or one of its shards.
    """
    with writing_whole(out) as held:
        recover(out)
        if located(out) == out and (out.is_symlink() or not out.is_dir() or can_move(out)):
            yield out
            return
        if located(out) == out and is_index(out):
            _copy_into(out, out / _INNER.format(1))
        former, number = located(out), 1
        if former != out:
            held.enter_context(writing(former))
            _tidy(out, former)
            number += int(former.name[6:])
        place = out / _INNER.format(number)
        held.enter_context(writing(place))
        yield place


def renew(index: Path, name: str) -> None:
    """Copy an index if a folder of it cannot be replaced, as in the lower layer of an overlay."""
    folders = [one / name for one in index_folders(index)]
    if any(one.is_dir() and not can_move(one, exchange=False) for one in folders):
        with replacing(index) as place:
            _copy_into(index, place)


def _copy_into(out: Path, place: Path) -> None:
    """Let a copy of an index, by links where possible, at a place in a folder replace it."""
    index, shards = located(out), index_folders(out)
    names = {one.name for one in shards}
    if shards == [index]:
        names = {COMMIT, SEGMENTS, LOGS, LUCENE, DENSE, SYNC, UPLOADS, GIVEN, SKIPPED}
        with suppress(InputError):  # damaged: it moves as far as is known
            names |= {name.partition("/")[0] for name in Manifest.read(index).parts}
    names = {name for name in names if (index / name).exists()}
    moved = {"moved": sorted(names)} if index == out else {}
    with work_folder(place, **moved) as work:
        for name in (MANIFEST, *names):
            for path in files_below(index / name) if (index / name).is_dir() else [index / name]:
                if path.name[0] != ".":
                    link_file(path, work / "copy" / path.relative_to(index))
        put(work / "copy", out, place, work)


def put(new: Path, out: Path, place: Path, work: Path) -> None:
    """Let a new index take the place that `replacing` gave; until then the former one stays.

    The former one is removed with the work folder, unless that notes another name to `keep` it, or
    what else has `moved` in a folder that cannot be replaced.
    """
    replace_folder(new, place, work)
    if place == out:
        return
    link = work / "link"
    link.symlink_to(f"{place.name}/{MANIFEST}")
    link.replace(out / MANIFEST)
    try:
        sync(out)
    except OSError as error:
        raise UnsureError(error) from error
    _tidy(out, place)


def _tidy(out: Path, place: Path) -> None:
    """Remove what was there before the index at a place in a folder."""
    former = _INNER.format(int(place.name[6:]) - 1)
    for work in find_work(place):
        # A rebuild notes nothing: it has replaced the index before.
        for name in notes_of(work).get("moved", [former, f".{former}.lock"]):
            remove_entry(out / name)
        remove_work(work)
    recover(place)  # what has lost its notes


def _aside(index: Path) -> Path:
    name = f"{index.name}.before-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(path for path in map(index.with_name, names) if not os.path.lexists(path))


def set_alias(alias: Path, index: Path) -> Path | None:
    """Let a name stand for an index; whoever opens it finds the former one or this one.

    Returns the index that it stood for, None if the name is new. Raises InputError if `index` is
    neither an index nor an alias of one, or something else has the name.
    """
    target = index.resolve()
    for folder in index_folders(target):
        Manifest.open(folder)
    if os.path.lexists(alias) and not alias.is_symlink():
        raise InputError(f"{alias} exists and is no alias: choose another name")
    former = alias.resolve() if alias.is_symlink() else None
    link = alias.with_name(f".{alias.name}.link")
    with writing(alias.with_name(f"{alias.name}.link"), wait=True):
        link.unlink(missing_ok=True)  # a killed run left it
        # Relative, so that both can be moved together, as into a container.
        link.symlink_to(os.path.relpath(target, alias.parent.resolve()))
        link.replace(alias)
        try:
            sync(alias.parent)
        except OSError as error:
            raise UnsureError(error) from error
    return former

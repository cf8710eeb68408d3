"""Files and folders: replaced as a whole, locked by one writer, hashed, with room on the disk."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from sparta.errors import InputError, first_line
from sparta.json_values import Json, JsonMapping, JsonValue

CHUNK = 2**20


def sha256(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file's content; `advance` is called with the bytes of each part that is done."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while part := file.read(CHUNK):
            digest.update(part)
            if advance is not None:
                advance(len(part))
    return digest.hexdigest()


def check_room(out: Path, needed: int) -> None:
    """Refuse work that would fill the disk."""
    whole = out.absolute()
    folder = next(path for path in (whole, *whole.parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{out} needs about {_gigabytes(needed)} more, the disk has {_gigabytes(free)} free: "
            "free some room, or choose another --out; what is finished is used again"
        )


FULL = "the disk is full: free some room and start again"


class UnsureError(OSError):
    """The disk failed when a change could no longer be taken back: it may come, or have come."""

    def __init__(self, error: OSError) -> None:
        reason = "the disk is full" if is_full(error) else error.strerror or error
        said = f"{reason}; the change may have been made: look, and repeat it if not"
        super().__init__(str(error) if isinstance(error, UnsureError) else said)


@contextmanager
def full_disk_reported(out: Path) -> Iterator[None]:
    """Report that the disk is full in one line, whichever library notices it."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        raise InputError(f"{out}: {FULL}; what is finished is used again") from error


def is_full(error: Exception) -> bool:
    """Whether an error says that the disk is full."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # Of Java, Arrow and FAISS, and of NumPy, which counts the items that it could write.
    text = str(error)
    return "No space left on device" in text or " requested and " in text


def _gigabytes(count: int) -> str:
    return f"{count / 10**9:,.1f} GB"


log = logging.getLogger(__name__)

TURN = 0.05  # seconds between two looks of a writer that waits for its turn
PATIENCE = 20.0  # seconds that it waits for a writer that yields

_held: dict[Path, tuple[int, int]] = {}  # this process's open lock files, and when they were taken
LOCK = ".lock"  # in a folder, while it is written
# Nothing can be made in a folder.
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}
# What a disk, this module or a mounted folder has where nobody has put anything.
_OWN = re.compile(r"lost\+found|\.(.*\.)?lock|\..*\.work-\d+-[a-z0-9_]{8}|index-\d{3,}")


class BusyError(InputError):
    """Another writer holds the lock of a folder."""


def is_free(folder: Path, *own: str) -> bool:
    """Whether there is a folder, with nothing but what no user puts there, or of these names."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else [""]
    return all(name in own or _OWN.fullmatch(name) for name in names)


def beside(folder: Path, suffix: str) -> Path:
    """A place for passing work on a folder: beside it, or in it if nothing can be made beside.

    The suffix begins with a dot.
    """
    inside = folder.is_dir() and not os.access(folder.resolve().parent, os.W_OK)
    return folder / suffix if inside else folder.with_name(folder.name + suffix)


def lock_path(folder: Path) -> Path:
    """The lock file of a folder, beside it; of a link, that of the folder it leads to."""
    named = folder.resolve() if folder.is_symlink() or not folder.name else folder
    return named.with_name(f".{named.name}.lock")


@contextmanager
def writing(folder: Path, *, wait: bool = False, yields: bool = False) -> Iterator[None]:
    """Be the only writer of a folder until the block ends; or wait for another writer to end.

    The kernel releases the lock of a process that ends in whatever way, so that a lock file that
    a killed process left is no obstacle. The folder need not exist. If it does, a second lock file
    lies in it: a container may see the folder, but not what is beside.
    Others wait `PATIENCE` for a writer that `yields`: one that ends soon when it `is_awaited`.

    Raises:
        BusyError: if another writer holds the lock, naming its process, host and start.
        InputError: if nothing can be made in the folder, or where it would be.
    """
    with ExitStack() as held:
        outside, inside = lock_path(folder), [folder / LOCK] if folder.is_dir() else []
        for path in (outside, *inside):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                held.enter_context(_holding(path, folder, wait, yields))
            except OSError as error:
                if error.errno not in _UNWRITABLE:
                    raise
                if not inside or path != outside:
                    raise InputError(
                        f"{folder} cannot be written ({path.parent}: {error.strerror}): allow "
                        "or mount it for writing, it or its parent folder, or give another place"
                    ) from error
        yield


@contextmanager
def _holding(path: Path, folder: Path, wait: bool, yields: bool) -> Iterator[None]:
    handle = _acquire(path, folder, wait, yields)
    _held[path] = handle, os.fstat(handle).st_mtime_ns
    try:
        yield
    finally:
        with suppress(OSError):  # what is left is no obstacle
            if _is_current(handle, path):  # the folder with it may have been replaced
                path.unlink()
        _held.pop(path, None)
        os.close(handle)


def is_awaited(folder: Path) -> bool:
    """Whether another writer waits for a folder that this process is writing."""
    for path in (lock_path(folder), folder / LOCK):
        with suppress(KeyError, FileNotFoundError):  # it has let go
            if path.stat().st_mtime_ns != _held[path][1]:
                return True
    return False


def _acquire(path: Path, folder: Path, wait: bool, yields: bool) -> int:
    """Open and lock a lock file, and write this process's name into it."""
    end = time.monotonic() + PATIENCE
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, path, folder, wait, end)
            if _is_current(handle, path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, _this_process(yields).encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the holder we waited for removed this file: lock the next one


def _lock(handle: int, path: Path, folder: Path, wait: bool, end: float) -> None:
    while True:
        with suppress(BlockingIOError):
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder, yields = _holder(path)
        problem = f"{folder} is being written by {holder}"
        if wait:
            log.warning("%s: waiting for it", problem)
            return fcntl.flock(handle, fcntl.LOCK_EX)
        if not yields or time.monotonic() > end:
            raise BusyError(f"{problem}: wait until it ends, or stop it")
        os.utime(handle)  # which the holder notices
        time.sleep(TURN)


def _is_current(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _this_process(yields: bool) -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    host = socket.gethostname()
    return json.dumps({"pid": os.getpid(), "host": host, "since": now, "yields": yields})


def _holder(path: Path) -> tuple[str, bool]:
    """The process that holds a lock, in words, and whether it yields."""
    try:
        found = json.loads(path.read_text())
        words = f"process {found['pid']} on {found['host']} since {found['since']}"
        return words, bool(found["yields"])
    except (OSError, ValueError, KeyError, TypeError):  # between its two steps of taking the lock
        return "another process", True


def _release_in_child() -> None:
    """Close the lock files that a forked process inherits: it would hold them after its parent."""
    for handle, _ in _held.values():
        with suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)


MARKER = "visualsparta-work.json"
REPLACED = "replaced"  # in a work folder: what was at the place before
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux' renameat2; RENAME_SWAP of macOS is 2, too


def make_work(out: Path, **notes: JsonValue) -> Path:
    """A new work folder for `out`, on the same file system, with notes for `notes_of`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f"{_prefix(out)}{os.getpid()}-", dir=out.parent))
    (work / MARKER).write_text(json.dumps({"work_of": out.name, **notes}))
    return work


def can_move(folder: Path, exchange: bool = True) -> bool:
    """Whether a folder can be renamed, and exchanged with another one; nothing is changed.

    A mount point cannot, nor a folder of an overlay's lower layer, nor one beside which nothing can
    be made. Not all disks can `exchange` two names: NFS cannot.
    """
    try:
        with work_folder(folder.with_name(f"{folder.name}.probe")) as work:
            for name in ("first", "second"):
                (work / name).mkdir()
            if exchange and not _exchange(work / "first", work / "second"):
                return False
            folder.rename(work)  # which fails in any case, since that is not empty
            work.rename(folder)
    except OSError as error:
        return error.errno not in {errno.EBUSY, errno.EXDEV, *_UNWRITABLE}
    return True


def check_name(out: Path) -> None:
    """Refuse a path that no folder can be moved to, such as "" or ".."."""
    if out.name in ("", ".."):
        raise InputError(f"--out {str(out)!r} names no folder: give a path that ends in a name")


@contextmanager
def work_folder(out: Path, **notes: JsonValue) -> Iterator[Path]:
    """A new work folder for `out`, removed at the end; what earlier runs left is cleaned first."""
    recover(out)
    for left in find_work(out):
        remove_work(left)
    work = make_work(out, **notes)
    try:
        yield work
    except BaseException:
        with suppress(OSError):  # else the next run does it
            recover(out)
            remove_work(work)
        raise
    try:
        recover(out)
    except OSError as error:
        raise UnsureError(error) from error
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
    """Put back what an interrupted `replace_folder` had moved aside, if `out` is missing.

    If a work folder has the note `keep`, what `out` was before gets that name instead.
    """
    for work in find_work(out):
        if os.path.lexists(work / REPLACED) and not os.path.lexists(out):
            (work / REPLACED).rename(out)
            sync(out.parent)
        elif keep := notes_of(work).get("keep"):
            # The writer's lock tells the former folder from a new one.
            for former in [entry for entry in work.iterdir() if (entry / LOCK).exists()]:
                former.rename(out.with_name(str(keep)))
                (out.with_name(str(keep)) / LOCK).unlink()
                sync(out.parent)
    for path in _candidates(out):
        # Killed, or the disk full, while its marker was written or removed.
        with suppress(OSError):
            if {entry.name for entry in path.iterdir()} <= {MARKER}:
                (path / MARKER).unlink(missing_ok=True)
                path.rmdir()


def replace_folder(new: Path, out: Path, work: Path) -> None:
    """Rename a finished folder to `out`; a folder already there stays in use until then.

    Everything in the new folder is synced to the disk first, and the renames after. The old folder
    moves into the work folder: in one step where the system can exchange two names, else by two
    renames, and if the machine stops between them, `recover` puts it back.

    Raises:
        UnsureError: if the disk does not say that the new folder stays in its place.
        OSError: if it cannot be synced or moved; `out` is then what it was.
    """
    _sync_tree(new)
    try:
        if not os.path.lexists(out):
            new.rename(out)
        elif _exchange(new, out):
            with suppress(OSError):  # the new one is in its place
                new.rename(work / REPLACED)
        else:
            out.rename(work / REPLACED)
            sync(work)
            new.rename(out)
    except BaseException:
        recover(out)
        raise
    try:
        sync(work)
        sync(out.parent)
    except OSError as error:
        raise UnsureError(error) from error


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system or the disk cannot."""
    names = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        return bool(ctypes.CDLL(None).renamex_np(*names, RENAME_EXCHANGE) == 0)
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    at = AT_FDCWD
    return rename is not None and rename(at, names[0], at, names[1], RENAME_EXCHANGE) == 0


def _prefix(out: Path) -> str:
    return f".{out.name}.work-"


def _candidates(out: Path) -> list[Path]:
    """Folders that are named like work folders of `out`."""
    if not out.parent.is_dir():
        return []
    pattern = re.compile(re.escape(_prefix(out)) + r"\d+-[a-z0-9_]{8}")
    return [path for path in out.parent.iterdir() if pattern.fullmatch(path.name) and path.is_dir()]


def _is_work(path: Path, out: Path) -> bool:
    return notes_of(path).get("work_of") == out.name


def notes_of(work: Path) -> JsonMapping:
    """What a work folder's marker says; {} if there is none, or it is damaged."""
    try:
        found = json.loads((work / MARKER).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remove_entry(path: Path) -> None:
    """Remove a file or a folder of a work folder, as far as that is possible now."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def files_below(folder: Path) -> Iterator[Path]:
    """The files below a folder, also by links; without what cannot be read."""
    # Path.rglob fails for some links in the first releases of Python 3.11.
    for top, _, names in os.walk(folder):
        yield from (path for path in (Path(top, name) for name in names) if os.path.isfile(path))  # noqa: PTH113


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


# ---- settings ------------------------------------------------------------------------------------


def read_yaml(path: Path) -> Json:
    """The keys and values of a YAML file; none of an empty one.

    Raises:
        InputError: if it is not YAML, or has something else than keys and values.
        OSError: if it cannot be read.
    """
    import yaml  # which a search does not need

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {first_line(error)}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, found {type(values).__name__}")
    return {str(key): value for key, value in values.items()}

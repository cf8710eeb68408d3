"""Runs functions in processes apart: with mounts of their own, or killed at each of their calls."""

import ctypes
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sparta import files
from tests.needs import EVERY

CHANGES = ("fsync", "link", "mkdir", "rename", "replace", "rmdir", "symlink", "unlink")
DECISIVE = {"exchange", "rename", "replace"}
OTHERS = 12 if EVERY else 2  # kills at other calls, spread over all of them
CLONE_NEWNS = 0x20000
RDONLY, REMOUNT, BIND, REC, PRIVATE = 1, 32, 4096, 16384, 1 << 18

with suppress(ImportError):
    import_module("pandas")  # which Arrow would import in each process, for seconds


def apart(work: Callable[..., None], *arguments: Any, mounts: bool = False) -> None:
    """Run a function of a module in a process that has no threads yet, perhaps with own mounts."""
    context = get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(there, mounts, work, *arguments))
    process.start()
    there.close()
    try:
        problem = here.recv()
    except EOFError:
        problem = "it ended before its end"
    process.join()
    assert not problem, problem


def _report(there: Connection, mounts: bool, work: Callable[..., None], *arguments: Any) -> None:
    try:
        if mounts:
            assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
            mount("", Path("/"), flags=REC | PRIVATE)
        work(*arguments)
        there.send("")
    except BaseException:
        there.send(traceback.format_exc())


def mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, as the system call of that name does."""
    texts = [os.fsencode(text) or None for text in (source, target, kind)]
    if ctypes.CDLL(None, use_errno=True).mount(*texts, flags, os.fsencode(data)):
        raise OSError(ctypes.get_errno(), f"cannot mount {source} at {target}")


def forked(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own, so that this one gets no threads."""
    status, found = _fork(lambda writer: os.write(writer, pickle.dumps(work(*arguments))))
    assert status == 0, "see the traceback on standard error"
    return pickle.loads(found)


def kills(begin: Callable[[], object], work: Callable[..., object], *given: Any) -> Iterator[str]:
    """Kill a function before each rename, the call after it, and some others that change files.

    Yields the call after each kill; `begin` comes before each. To be used in a process that has no
    threads.
    """
    begin()
    status, found = _fork(lambda writer: _until(0, writer, work, *given))
    assert status == 0, "see the traceback on standard error"
    calls = found.decode().splitlines()
    for number, names in enumerate(pairwise(["", *calls])):
        if DECISIVE & {*names} or number % (1 + len(calls) // OTHERS) == 0:
            begin()
            status, found = _fork(lambda out: _until(number + 1, out, work, *given))  # noqa: B023
            assert status == -signal.SIGKILL
            yield f"{number}: {found.decode().splitlines()[-1]}"


def _fork(work: Callable[[int], object]) -> tuple[int, bytes]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            work(writer)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), found


def _until(number: int, writer: int, work: Callable[..., object], *arguments: Any) -> None:
    count = 0

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            os.write(writer, f"{name}\n".encode())
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return None if name == "fsync" else call(*given, **named)

        return counting

    for name in CHANGES:
        setattr(os, name, counted(name, getattr(os, name)))
    files._exchange = counted("exchange", files._exchange)
    work(*arguments)

"""How the processes of a server are stopped: by SIGINT and SIGTERM, and with the first of them.

Signals are something to wait for. As an exception a signal would be lost where Python ignores
exceptions, as in imports by C and in finalisers, and the server would go on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe, parent_process
from multiprocessing.connection import Connection

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_signals() -> Iterator[Connection]:
    """A connection that has something to read as soon as one of the signals came.

    Afterwards they raise KeyboardInterrupt, as Ctrl+C does.
    """
    reader, writer = Pipe(duplex=False)
    for number in STOPS:
        signal.signal(number, lambda *_: writer.send_bytes(b"stop"))
    try:
        yield reader
    finally:
        for number in STOPS:
            signal.signal(number, signal.default_int_handler)
        reader.close()
        writer.close()


@contextmanager
def held_back() -> Iterator[None]:
    """Let a process that is forked now get such signals when it asks for them; see `take`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def take() -> None:
    """Leave Ctrl+C to the first process, and end by SIGTERM, one that was held back included."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def stop_with_parent() -> None:
    """Stop this process as SIGTERM does when the one that started it ends, even if killed."""

    def wait() -> None:
        first = parent_process()
        if first is not None:
            first.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()

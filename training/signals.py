"""Protecting the signal handlers of an embedded Java machine from other libraries."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SIZE = 256  # bytes, more than any system's struct sigaction has


@contextmanager
def keep_java_handlers() -> Iterator[None]:
    """Restore the handlers of the signals that Java uses for null pointers and the like.

    When training ends, Lightning sets every signal handler to the one in Python's table. Java's
    handlers are not in that table: a Java machine in the same process would lose them and be
    killed by the next such signal.
    """
    if sys.platform == "win32":  # which has no such signals
        yield
        return
    libc = ctypes.CDLL(None)
    saved = {
        number: ctypes.create_string_buffer(SIZE)
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    }
    for number, handler in saved.items():
        libc.sigaction(number, None, handler)
    try:
        yield
    finally:
        for number, handler in saved.items():
            libc.sigaction(number, handler, None)

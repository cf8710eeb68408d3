"""Signal handlers that Python knows nothing of, kept while a library sets others."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SIZE = 256  # bytes, more than any system's struct sigaction has


@contextmanager
def keep_java_handlers() -> Iterator[None]:
    """Put back the handlers of the signals by which Java notices null pointers and the like.

    When training ends, Lightning sets every signal to what Python's own table says. Java's
    handlers are not in there: a Java machine in the same process would lose them and be killed
    by the next signal it counts on.
    """
    if sys.platform == "win32":  # has no such signals
        yield
        return
    libc = ctypes.CDLL(None)
    kept = {
        number: ctypes.create_string_buffer(SIZE)
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    }
    for number, handler in kept.items():
        libc.sigaction(number, None, handler)
    try:
        yield
    finally:
        for number, handler in kept.items():
            libc.sigaction(number, handler, None)

"""What is done once, in a thread, before somebody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread

from sparta.errors import InputError


class Preparation:
    """Work that is started by the first call, and waited for at the end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: Thread | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Do some work in a thread unless that was started before.

        Args:
            work: its InputError is ignored: who needs the result meets it as well.
        """

        def run() -> None:
            with suppress(InputError):
                work()

        with self._lock:
            if self._thread is None:
                # Not a daemon: an exit in the middle of Java hangs.
                self._thread = Thread(target=run)
                self._thread.start()

    def wait(self) -> None:
        """Until it is done, if it was started."""
        if self._thread is not None:
            self._thread.join()

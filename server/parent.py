"""Processes that a server starts end with it."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import parent_process


def stop_with_parent() -> None:
    """Stop this process as SIGTERM does when the one that started it ends, even if killed."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    first = parent_process()
    if first is not None:
        first.join()
        os.kill(os.getpid(), signal.SIGTERM)

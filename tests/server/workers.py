"""A server of fakes with two workers, to run as a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from server.backends import Backend, Backends
from server.processes import run_workers
from server.sockets import listen, url
from sparta.errors import InputError
from tests.server.fake import FakeSearcher


def open_fakes() -> Backends:
    return Backends([Backend("sparta", FakeSearcher(), quick=True)])


def refuse(index: Path) -> Backends:
    raise InputError(f"{index} is not an index")


def serve(kind: str) -> None:
    """Print the address and serve until interrupted; the backends of "nothing" fail to open."""
    kinds: dict[str, Callable[[], Backends]] = {
        "fakes": open_fakes,
        "nothing": partial(refuse, Path("photos")),
    }
    with listen("127.0.0.1", 0) as listening:
        sys.stdout.write(f"{url('127.0.0.1', listening.getsockname()[1])}\n")
        sys.stdout.flush()
        run_workers(2, kinds[kind], listening)

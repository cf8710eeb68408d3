"""A server of fakes with some workers, to run as a process of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from indexer.query import Query
from indexer.search.answer import Answer
from server import processes
from server.backends import Backend, Backends
from server.processes import run, run_workers
from server.security.listening import listen, url
from sparta.errors import InputError
from tests.server.apps import app_of, settings
from tests.server.fake import FakeSearcher


class Slow(FakeSearcher):
    """Takes two seconds for "slow"."""

    def search(self, query: str | Query, k: int = 10, **options: Any) -> Answer:
        if query == "slow":
            time.sleep(2)
            query = "red"
        return super().search(query, k, **options)


def open_fakes() -> Backends:
    return Backends([Backend("sparta", Slow())])


def refuse(index: Path) -> Backends:
    raise InputError(f"{index} is not an index")


def open_while(index: Path) -> Backends:
    """As long as a file exists; leaves a file with the number of the process."""
    if not index.exists():
        return refuse(index)
    index.with_name(f"{os.getpid()}.opened").touch()
    return open_fakes()


def serve(kind: str, workers: int = 2) -> None:
    """Print the address and serve until interrupted.

    Args:
        kind: "fakes"; "nothing", whose backends fail to open; or a file, with which they open.
        workers: number of processes.
    """
    processes.PAUSE = 0.1
    kinds: dict[str, Callable[[], Backends]] = {
        "fakes": open_fakes,
        "nothing": partial(refuse, Path("photos")),
    }
    with listen("127.0.0.1", 0) as listening:
        sys.stdout.write(f"{url('127.0.0.1', listening.getsockname()[1])}\n")
        sys.stdout.flush()
        if workers == 1:
            run(app_of(*open_fakes()), listening)
        else:
            opener = kinds.get(kind, partial(open_while, Path(kind)))
            run_workers(settings(workers=workers), opener, listening)

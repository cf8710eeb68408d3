"""Work that is done once, in a thread."""

from __future__ import annotations

from threading import Event

from indexer.search.preparing import Preparation
from sparta.errors import InputError


def test_it_is_done_once_and_waited_for() -> None:
    done, go = [], Event()

    def work() -> None:
        go.wait(60)
        done.append("done")
        raise InputError("which the next one who needs it meets as well")

    preparation = Preparation()
    preparation.wait()
    for _ in range(3):
        preparation.start(work)
    assert done == []
    go.set()
    preparation.wait()
    preparation.start(work)
    preparation.wait()
    assert done == ["done"]

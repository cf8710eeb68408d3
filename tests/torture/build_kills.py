"""Builds killed at random points: the old index answers until the swap, and the next build works.

Half of the kills come before a random change of files beside the index, which meets the moments
around the swap; the others at a random time.
"""

import os
import random
import shutil
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.torture.kills import Processes, Report, Row, repeat
from tests.torture.tiny_index import answers, build, make_corpus

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
TOP_N = (3, 5)  # of the index and of the one that replaces it, in turn
PRELOADED = ("torch", "transformers", "indexer.build", "tests.torture.tiny_index")
RIGHT = {
    "index": ("old", "new"),
    "next_build": ("succeeded",),
    "next_index": ("right",),
    "left_over": ("nothing",),
    "users_folder": ("intact",),
}


def kill_builds(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Kill so many builds; returns what happened, and what should not have happened."""
    with Processes(*PRELOADED) as processes:
        return repeat(count, seed, report, _Place(work, processes).kill, RIGHT)


class _Place:
    """An index that is replaced again and again, beside a folder of the user's."""

    def __init__(self, work: Path, processes: Processes) -> None:
        self._processes = processes
        self._corpus = make_corpus(work / "corpus")
        self._right = {}
        for top_n in TOP_N:
            processes.run(build, self._corpus, work / str(top_n), top_n)
            self._right[top_n] = processes.run(answers, work / str(top_n))
        self._top_n = TOP_N[0]
        self._out = work / "place" / "index"
        self._users = self._out.with_name("index.old")
        for folder in (self._out, self._users, work / "trial" / "index"):
            shutil.copytree(work / str(self._top_n), folder)
        for _ in range(2):  # the first run compiles
            self._changes, self._seconds = self._measure(work / "trial" / "index")

    def _measure(self, out: Path) -> tuple[int, float]:
        """How many changes of files a build that replaces an index makes, and its seconds."""
        here, there = self._processes.pipe()
        started = time.monotonic()
        child = self._processes.start(_count_changes, self._corpus, out, there)
        changes = here.recv()
        child.join()
        return changes, time.monotonic() - started

    def kill(self, rng: random.Random, number: int) -> Row:
        """Kill a build, look at the index, build again and look again."""
        old, new = self._top_n, TOP_N[1 - TOP_N.index(self._top_n)]
        if number % 2:
            change, after = None, rng.uniform(0, self._seconds)
            killed_at = f"{after:.1f} of {self._seconds:.1f} s"
        else:
            change, after = rng.randrange(1, self._changes + 1), 300.0
            killed_at = f"change {change} of {self._changes}"
        child = self._processes.start(_build_until, self._corpus, self._out, new, change)
        child.join(after)
        child.kill()
        child.join()
        found = self._which(self._out, old=old, new=new)
        # The next build continues, or has other settings.
        self._top_n = rng.choice(TOP_N)
        built = (build, self._corpus, self._out, self._top_n)
        return {
            "killed_at": killed_at,
            "index": found,
            "next_build": self._processes.outcome({"succeeded": None}, *built),
            "next_index": self._which(self._out, right=self._top_n),
            "left_over": self._left_over() or "nothing",
            "users_folder": self._which(self._users, intact=TOP_N[0]),
        }

    def _which(self, index: Path, **top_n: int) -> str:
        """The name of the build whose answers an index gives."""
        known = {name: self._right[one] for name, one in top_n.items()}
        return self._processes.outcome(known, answers, index)

    def _left_over(self) -> str:
        known = {self._out.name, self._users.name}
        return ", ".join(sorted({path.name for path in self._out.parent.iterdir()} - known))


def _count_changes(corpus: Path, out: Path, there: Connection) -> None:
    counted = _watch(out.parent, None)
    build(corpus, out, TOP_N[1])
    there.send(counted[0])


def _build_until(corpus: Path, out: Path, top_n: int, change: int | None) -> None:
    os.setsid()
    _watch(out.parent, change)
    build(corpus, out, top_n)


def _watch(folder: Path, last: int | None) -> list[int]:
    """Count changes of files in a folder, and end as by SIGKILL before the last of them."""
    counted = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            changes = str(arguments[0]).startswith(str(folder)) and bool(arguments[2] & WRITING)
        else:
            # What is removed within an open folder has a relative name.
            changes = event in CHANGES and (
                str(arguments[0]).startswith(str(folder)) or arguments[-1] != -1
            )
        counted[0] += changes
        if changes and counted[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return counted

"""Builds killed at random points: the old index answers until the swap, and the next build works.

Half of the kills come before a random change of files beside the index, which meets the moments
around the swap; the others at a random time.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.torture.tiny_index import Corpus, answers, build, make_corpus

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
TOP_N = (3, 5)  # of the index and of the one that replaces it, in turn
PRELOADED = ["torch", "transformers", "indexer.build", "tests.torture.tiny_index"]


def kill_builds(count: int, seed: int, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Kill so many builds; returns what happened, and what should not have happened."""
    rng = random.Random(seed)
    with ProcessPoolExecutor(1, get_context("spawn")) as whole:
        place = _Place(work, whole)
        rows = []
        for number in range(count):
            row = place.kill(rng, by_time=bool(number % 2))
            rows.append(row)
            point, index, following = row["killed_at"], row["index"], row["next_build"]
            report(f"kill {number + 1} of {count}, at {point}: index {index}, next {following}")
    outcomes = ("index", "next_build", "next_index", "users_folder")
    summary = {key: counted(rows, key) for key in outcomes}
    bad = [row for row in rows if _is_bad(row)]
    return {"kills": count, "seed": seed, **summary, "wrong": bad}


class _Place:
    """An index that is replaced again and again, beside a folder of the user's.

    Args:
        work: an empty folder.
        whole: the process of the builds that are not killed.
    """

    def __init__(self, work: Path, whole: ProcessPoolExecutor) -> None:
        self._whole = whole
        self._forks: Any = get_context("forkserver")
        self._forks.set_forkserver_preload(PRELOADED)
        self._corpus = make_corpus(work / "corpus")
        self._right = {}
        for top_n in TOP_N:
            whole.submit(build, self._corpus, work / str(top_n), top_n).result()
            self._right[top_n] = whole.submit(answers, work / str(top_n)).result()
        self._top_n = TOP_N[0]
        self._out = work / "place" / "index"
        self._users = self._out.with_name("index.old")
        for folder in (self._out, self._users, work / "trial" / "index"):
            shutil.copytree(work / str(self._top_n), folder)
        for _ in range(2):  # the first run compiles
            self._changes, self._seconds = self._measure(work / "trial" / "index")

    def _measure(self, out: Path) -> tuple[int, float]:
        """How many changes of files a build that replaces an index makes, and its seconds."""
        here, there = self._forks.Pipe()
        child = self._forks.Process(target=_count_changes, args=(self._corpus, out, there))
        started = time.monotonic()
        child.start()
        changes = here.recv()
        child.join()
        return changes, time.monotonic() - started

    def kill(self, rng: random.Random, by_time: bool) -> dict[str, Any]:
        """Kill a build, look at the index, build again and look again."""
        old, new = self._top_n, TOP_N[1 - TOP_N.index(self._top_n)]
        change = None if by_time else rng.randrange(1, self._changes + 1)
        after = rng.uniform(0, self._seconds) if by_time else 300
        child = self._forks.Process(
            target=_build_until, args=(self._corpus, self._out, new, change)
        )
        child.start()
        child.join(after)
        child.kill()
        child.join()
        found = self._which(self._out, {"old": self._right[old], "new": self._right[new]})
        # The next build continues, or has other settings.
        self._top_n = rng.choice(TOP_N)
        return {
            "killed_at": f"{after:.1f} of {self._seconds:.1f} s"
            if by_time
            else f"change {change} of {self._changes}",
            "index": found,
            "next_build": self._build_whole(),
            "next_index": self._which(self._out, {"right": self._right[self._top_n]}),
            "left_over": self._left_over(),
            "users_folder": self._which(self._users, {"intact": self._right[TOP_N[0]]}),
        }

    def _build_whole(self) -> str:
        try:
            self._whole.submit(build, self._corpus, self._out, self._top_n).result()
        except Exception as error:  # what is wrong is reported
            return f"{type(error).__name__}: {error}"
        return "succeeded"

    def _which(self, index: Path, known: dict[str, Any]) -> str:
        """The name of the answers that an index gives."""
        try:
            found = self._whole.submit(answers, index).result()
        except Exception as error:  # what is wrong is reported
            return f"{type(error).__name__}: {error}"
        return next((name for name, right in known.items() if found == right), "neither")

    def _left_over(self) -> list[str]:
        known = {self._out.name, self._users.name}
        return sorted({path.name for path in self._out.parent.iterdir()} - known)


def _is_bad(row: dict[str, Any]) -> bool:
    right = {"next_build": "succeeded", "next_index": "right", "users_folder": "intact"}
    wrong = any(row[key] != value for key, value in right.items())
    return wrong or row["index"] not in ("old", "new") or bool(row["left_over"])


def counted(rows: list[dict[str, Any]], key: str) -> dict[str, int]:
    values = [str(row[key]) for row in rows]
    return {value: values.count(value) for value in sorted(set(values))}


def _count_changes(corpus: Corpus, out: Path, there: Connection) -> None:
    counted = _watch(out.parent, None)
    build(corpus, out, TOP_N[1])
    there.send(counted[0])


def _build_until(corpus: Corpus, out: Path, top_n: int, change: int | None) -> None:
    os.setsid()
    if change is not None:
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

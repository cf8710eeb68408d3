"""Damaged files of indexes and feature stores: named in one line, or without effect."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparta.errors import InputError
from tests.damage import KINDS, damage
from tests.torture.tiny_index import add_vectors, answers, build, make_corpus, rows

Read = Callable[[Path], Any]


def damage_files(
    count: int, seed: int, work: Path, report: Callable[[str], None]
) -> dict[str, Any]:
    """Damage so many files, one at a time; returns what happened, and what should not have."""
    rng = random.Random(seed)
    corpus = make_corpus(work / "corpus")
    index = work / "index"
    outcomes: dict[str, int] = {}
    wrong: list[dict[str, str]] = []
    pool = _Process()
    pool.run(build, corpus, index, 5)
    pool.run(add_vectors, corpus, index)
    # Only damage to the dense part needs the dense model, which takes the longest to read.
    dense = partial(answers, dense=True)
    readers: list[tuple[Path, str, Read]] = [
        (index, "*", answers),
        (index, "[lc]*/*", answers),
        (index, "dense/**/*", dense),
        (corpus.features, "*", rows),
    ]
    rights = [pool.run(read, folder) for folder, _, read in readers]
    files = [
        (folder, path.relative_to(folder), read, right)
        for (folder, pattern, read), right in zip(readers, rights, strict=True)
        for path in sorted(folder.glob(pattern))
        if path.is_file() and path.stat().st_size
    ]
    for number in range(count):
        folder, name, read, right = rng.choice(files)
        copy = work / "copy"
        shutil.copytree(folder, copy)
        how = ""
        while not how:
            how = damage(copy / name, rng.choice(KINDS), rng)
        outcome, text = _outcome(partial(pool.run, read, copy), right)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if outcome not in ("detected", "equal"):
            wrong.append({"file": f"{folder.name}/{name}", "how": how, outcome: text})
        report(f"damage {number + 1} of {count}, {folder.name}/{name}, {how}: {outcome}")
        shutil.rmtree(copy)
    pool.close()
    return {"damaged": count, "seed": seed, "outcomes": outcomes, "wrong": wrong}


def _outcome(read: Callable[[], Any], right: Any) -> tuple[str, str]:
    try:
        return ("equal", "") if read() == right else ("wrong answers", "")
    except (InputError, OSError) as error:
        return ("detected" if "\n" not in str(error) else "several lines"), str(error)
    except BrokenProcessPool:
        return "process ended", ""
    except Exception as error:  # what is wrong is reported
        return "traceback", f"{type(error).__name__}: {error}"


class _Process:
    """A process that reads, and a new one where damage ended it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Work there."""
        try:
            return self._pool.submit(work, *arguments).result()
        except BrokenProcessPool:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"))
            raise

    def close(self) -> None:
        """End it."""
        self._pool.shutdown()

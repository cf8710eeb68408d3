"""Damaged files of indexes and feature stores: named in one line, or without effect."""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.damage import KINDS, damage
from tests.torture.kills import REFUSED, Processes, Report, Row, repeat
from tests.torture.tiny_index import add_vectors, answers, build, make_corpus, rows


def damage_files(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Damage so many files, one at a time; returns what happened, and what should not have."""
    with Processes() as processes:
        files = _Files(work, processes)
        right = {"outcome": ("detected", "equal")}
        return repeat(count, seed, report, files.damage_one, right, "damaged")


class _Files:
    """The files of an index and of a feature store, and what is read from them undamaged."""

    def __init__(self, work: Path, processes: Processes) -> None:
        self._copy, self._processes = work / "copy", processes
        corpus, index = make_corpus(work / "corpus"), work / "index"
        processes.run(build, corpus, index, 5)
        processes.run(add_vectors, corpus, index)
        # Only damage to the dense part needs the dense model, which takes the longest to read.
        readers: list[tuple[Path, str, Callable[[Path], Any]]] = [
            (index, "*", answers),
            (index, "segments/**/*", answers),
            (index, "lucene/*", answers),
            (index, "dense/**/*", partial(answers, dense=True)),
            (corpus / "features", "*", rows),
        ]
        rights = [processes.run(read, folder) for folder, _, read in readers]
        self._files = [
            (folder, path.relative_to(folder), read, right)
            for (folder, pattern, read), right in zip(readers, rights, strict=True)
            for path in sorted(folder.glob(pattern))
            if path.is_file() and path.stat().st_size
        ]

    def damage_one(self, rng: random.Random, number: int) -> Row:
        """Damage a file of a copy, and read the copy."""
        folder, name, read, right = rng.choice(self._files)
        shutil.copytree(folder, self._copy)
        how = ""
        while not how:
            how = damage(self._copy / name, rng.choice(KINDS), rng)
        found = self._processes.outcome({"equal": right}, read, self._copy)
        shutil.rmtree(self._copy)
        named = found.startswith(REFUSED) and "\n" not in found
        return {
            "file": f"{folder.name}/{name}",
            "how": how,
            "outcome": "detected" if named else found,
        }

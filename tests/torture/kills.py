"""What all suites of kills share: start a process, kill it, read what is left, count outcomes."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Self

from sparta.errors import InputError

REFUSED = "refused: "  # begins the outcome of a reader that raised an error of the user's

Report = Callable[[str], None]
Row = dict[str, Any]  # of one kill: outcome by name, and where and how it came


class Processes:
    """Starts the processes that a suite kills, and runs everything else in one that lives."""

    def __init__(self, *preloaded: str) -> None:
        self._forks: Any = get_context("forkserver")
        self._forks.set_forkserver_preload(list(preloaded))
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def start(self, target: Callable[..., None], *arguments: Any) -> Any:
        """Start a process to be killed; returns a `multiprocessing.Process`."""
        process = self._forks.Process(target=target, args=arguments)
        process.start()
        return process

    def pipe(self) -> Any:
        """A pipe that a process to be killed can write to: the end to read, the end to write."""
        return self._forks.Pipe(duplex=False)

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns in the process that lives."""
        try:
            return self._pool.submit(work, *arguments).result()
        except BrokenProcessPool:
            self._pool = self._new()
            raise

    def outcome(self, known: Mapping[str, Any], work: Callable[..., Any], *arguments: Any) -> str:
        """Run a function; returns the name of the known result that it returns.

        Otherwise "neither", or what it raised, after `REFUSED` for an error of the user's.
        """
        try:
            found = self.run(work, *arguments)
        except (InputError, OSError) as error:
            return f"{REFUSED}{error}"
        except Exception as error:  # a bug, which the result reports
            return f"{type(error).__name__}: {error}"
        return next((name for name, right in known.items() if found == right), "neither")


def repeat(
    count: int,
    seed: int,
    report: Report,
    kill: Callable[[random.Random, int], Row],
    right: Mapping[str, Collection[str] | None],
    times: str = "kills",
) -> dict[str, Any]:
    """Kill again and again, and count the outcomes.

    Returns:
        how often each outcome had each value, and under "wrong" the kills with a value that is not
        right.
    """
    rng, rows = random.Random(seed), []
    for number in range(count):
        rows.append(row := kill(rng, number))
        report(f"{number + 1} of {count}: {row}")
    return {
        times: count,
        "seed": seed,
        **{name: dict(sorted(Counter(row[name] for row in rows).items())) for name in right},
        "wrong": [row for row in rows if not _is_right(row, right)],
    }


def _is_right(row: Row, right: Mapping[str, Collection[str] | None]) -> bool:
    return all(values is None or row[name] in values for name, values in right.items())

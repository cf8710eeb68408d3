"""Processes of a server killed while clients write through it and search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.server.drawings import index_drawings
from tests.server.fake import draw
from tests.torture.soak.measure import soak
from tests.torture.soak.plan import SoakPlan

EVERY = 8.0  # seconds: a worker that is killed before it is ready is replaced after five
IMAGES = 1000
QUERIES = ["red", "blue things", "dark green", "a yellow % car", "red blue"]


def kill_server(count: int, seed: int, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Kill so many workers and writers; returns what happened, and what should not have.

    Requests that no retry healed are counted; they are not wrong where a process dies so often.
    """
    (work / "photos").mkdir()
    index = index_drawings(work / "drawings", draw(work / "photos"))
    plan = SoakPlan(
        (count + 1) * EVERY / 60,
        clients=4,
        workers=2,
        images=IMAGES,
        pause=0.05,
        killed_every=EVERY,
        hanging_up=0,
        writers=4,
        seed=seed,
    )

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "soak" and done % 20 == 0:
            report(f"server: {done} of {total} seconds")

    found = soak(index, QUERIES, plan, progress)
    return {
        "kills": found.tally.killed,
        "seed": seed,
        "happened": {
            "images written": found.tally.written,
            "answers checked": found.tally.answers,
            "requests that no retry healed": found.tally.failures.total(),
        },
        "wrong": [*found.judge.wrong, *found.tracebacks],
    }

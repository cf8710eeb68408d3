"""Progress bars with rate and time left, on stderr so that results can be piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

STAGES = {"encode": ("Encoding images", "images"), "search": ("Searching", "queries")}


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """One bar per stage; gives the function that moves them: stage, done, total."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def show(stage: str, done: int, total: int) -> None:
            description, unit = STAGES[stage]
            if stage not in tasks:
                tasks[stage] = bar.add_task(description, total=total, rate="")
            speed = bar.tasks[tasks[stage]].speed
            bar.update(tasks[stage], completed=done, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield show

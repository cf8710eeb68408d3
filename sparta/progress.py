"""Progress bars with rate and time left, the same for every long command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.progress import TaskID

    from sparta.console import Console


# How every long job reports: a stage of those that it documents, units finished (those of an
# earlier run included), and units in all.
Progress: TypeAlias = Callable[[str, int, int], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """A `Progress` that reports nothing: the default of every job."""


Notice: TypeAlias = Callable[[str], None]  # shows one line to the user


def no_notice(line: str) -> None:
    """A `Notice` that shows nothing."""


@contextmanager
def progress_bars(stages: Mapping[str, tuple[str, str]], console: Console) -> Iterator[Progress]:
    """One bar per stage, shown from its first step on.

    What is already done at a stage's first step, by an earlier run, does not count in its rate.
    Each stage has the bar's text, and the unit of the rate ("images"). Yields the function that
    moves the bars: stage, done, total.
    """
    from rich import progress as rich  # which a search does not need

    tasks: dict[str, TaskID] = {}
    bar = rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[rate]}", markup=False),
        rich.TimeRemainingColumn(),
        console=console,
    )

    def show(stage: str, done: int, total: int) -> None:
        description, unit = stages[stage]
        if stage not in tasks:
            bar.start()
            tasks[stage] = bar.add_task(description, total=total, completed=done, rate="")
            return
        bar.update(tasks[stage], completed=done)
        speed = bar.tasks[tasks[stage]].speed
        bar.update(tasks[stage], rate=f"{speed:,.0f} {unit}/s" if speed else "")

    try:
        yield show
    finally:
        if tasks:  # stopping prints a line, even if nothing has started
            bar.stop()

"""`sparta restore`."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.options import Yes

Snapshot = Annotated[Path, typer.Argument(help="Snapshot made by sparta snapshot.")]
Index = Annotated[Path, typer.Argument(help="Folder for the index.")]


def restore(snapshot: Snapshot, index: Index, yes: Yes = False) -> None:
    """Make an index of a snapshot, which is checked whole before and stays as it is.

    An index that is there is moved aside after a question, or with --yes; a running sparta serve
    changes over to the restored one.

    For example:

    sparta restore snapshots/2024-06-01 index/
    """
    from indexer.care.snapshots import restore_snapshot
    from indexer.commands.consent import ask
    from sparta.console import Console
    from sparta.progress import progress_bars

    if index.exists():
        ask(f"{index} exists: move it aside and put {snapshot} in its place?", yes)
    stages = {"hash": ("Hashing files", "MB")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        aside = restore_snapshot(snapshot, index, progress)
    former = f"; the former index is {aside}" if aside else ""
    typer.echo(f"{index}: restored from {snapshot}{former}")

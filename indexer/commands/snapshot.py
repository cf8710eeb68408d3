"""`sparta snapshot`."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.options import IndexFolder

Snapshot = Annotated[Path, typer.Argument(help="Folder for the snapshot; must not exist.")]


def snapshot(index: IndexFolder, snapshot: Snapshot) -> None:
    """Copy an index as it is now, in seconds, while it is searched and written to.

    Files that never change are linked, so that a snapshot on the same disk takes little room and
    time. A snapshot is an index: it can be searched, and copied to another disk like any folder.

    For example:

    sparta snapshot index/ snapshots/2024-06-01
    """
    from indexer.care.snapshots import take_snapshot

    commit = take_snapshot(index, snapshot)
    state = f"commit {commit.version:,}" if commit.version else "as it was built"
    typer.echo(f"{snapshot}: {index}, {state}")

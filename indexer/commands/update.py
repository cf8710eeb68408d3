"""`sparta update`."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.options import IndexFolder

MetadataFile = Annotated[
    Path,
    typer.Argument(
        metavar="METADATA",
        help="JSON Lines, CSV or Parquet with the image's id as the field image.",
    ),
]


def update(index: IndexFolder, metadata: MetadataFile) -> None:
    """Change metadata of images in an index, without encoding them again.

    Fields that are given replace those of the same name, all others stay. In JSON Lines null
    removes a field; empty cells of a table change nothing.

    The next search finds the images by their new metadata, a running sparta serve within a second
    or two.

    For example:

    sparta update index/ albums.jsonl

    sparta update index/ ratings.csv
    """
    from indexer.metadata import read_metadata
    from indexer.update.metadata import update_metadata
    from sparta.console import Console
    from sparta.progress import progress_bars

    console = Console()
    stages = {"update": ("Changing metadata", "images")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        report = update_metadata(index, read_metadata(metadata), progress)
    counts = f"metadata of {report.changed:,} images changed, {report.unchanged:,} as before"
    if report.unknown:
        counts += f"; {len(report.unknown):,} not in the index: {listed(report.unknown)}"
    console.print(f"{index}: {counts}", soft_wrap=True, highlight=False)


def listed(names: list[str], most: int = 20) -> str:
    """Names in one line, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

"""`sparta merge`."""

from pathlib import Path
from typing import Annotated

import typer

Indexes = Annotated[list[Path], typer.Argument(help="Index folders, at least two.")]
Out = Annotated[Path, typer.Option(help="Folder for the index; must not exist.")]


def merge(indexes: Indexes, out: Out) -> None:
    """Make one index of several, without encoding anything again.

    They must have the same models, settings, offsets and scale, and no image in common: indexes
    that began as copies of one, to which different photos were added. They stay as they are.

    For example:

    sparta merge laptop/ archive/ --out all/
    """
    from indexer.care.merging import merge_indexes
    from indexer.commands.building import STAGES
    from sparta.console import Console
    from sparta.progress import progress_bars

    console = Console()
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        manifest = merge_indexes(indexes, out, progress)
    text = f"{out}: {manifest.images:,} images of {len(indexes)} indexes"
    console.print(text, soft_wrap=True, highlight=False)

"""`sparta merge`."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError

Indexes = Annotated[list[Path], typer.Argument(help="One index, or several with --out.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the index made of several; must not exist.")
]


def merge(indexes: Indexes, out: Out = None) -> None:
    """Merge the segments of an index, or several indexes into one.

    One index gets one segment without deleted images, and its Lucene index is written again with
    all that was added, changed and deleted since.

    Several must have the same models, settings, offsets and scale, and no image in common: indexes
    that began as copies of one, to which different photos were added. They stay as they are, and
    nothing is encoded again.

    For example:

    sparta merge index/

    sparta merge laptop/ archive/ --out all/
    """
    from indexer.care.combine import merge_indexes, merge_segments
    from indexer.commands.building import STAGES
    from sparta.console import Console
    from sparta.progress import progress_bars

    if (len(indexes) > 1) != (out is not None):
        raise InputError("give one index, or several and --out for the index made of them")
    console = Console()
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        if out is None:
            images = merge_segments(indexes[0], progress)
            text = f"{indexes[0]}: {images:,} images in one segment"
        else:
            images = merge_indexes(indexes, out, progress).images
            text = f"{out}: {images:,} images of {len(indexes)} indexes"
    console.print(text, soft_wrap=True, highlight=False)

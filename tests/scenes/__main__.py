"""Draws a sample corpus: `python -m tests.scenes --help`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sparta.console import Console
from sparta.errors import InputError
from sparta.progress import progress_bars
from tests.scenes.corpus import QUALITY, write_queries, write_scenes


def scenes(
    out: Annotated[Path, typer.Option(help="Folder to write, created if missing.")],
    count: Annotated[int, typer.Option(min=1, help="Number of scenes.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same scenes.")] = 0,
    split: Annotated[
        str, typer.Option(help="Name of the split, or shares: train=0.9,val=0.1.")
    ] = "train",
    quality: Annotated[int, typer.Option(min=1, max=95, help="Of the JPEG files.")] = QUALITY,
    workers: Annotated[str, typer.Option(help="Number of processes, or auto.")] = "auto",
    queries: Annotated[
        int,
        typer.Option(min=0, help="Composed queries to write, with the images that answer each."),
    ] = 0,
) -> None:
    """Draw a sample corpus: images of simple scenes with five captions each and all object boxes.

    A finished folder is reused. --queries writes queries.jsonl for
    `sparta eval index`: a colour and an object, a number of objects, two objects, in turn.

    For example:

    python -m tests.scenes --out demo --count 500

    python -m tests.scenes --out corpus --count 20000 --seed 1 --split train=0.95,val=0.05
    """
    if workers != "auto" and not workers.isdecimal():
        raise InputError(f"--workers {workers!r}: expected a number of processes or auto")
    processes = (os.cpu_count() or 1) if workers == "auto" else int(workers)
    console = Console()
    with progress_bars({"draw": ("Drawing", "scenes")}, console) as progress:
        fresh = write_scenes(out, count, seed, split, processes, progress, quality)
    console.print(f"{'wrote' if fresh else 'reused'} {count} scenes in {out}")
    if queries:
        console.print(f"wrote {write_queries(out, queries, seed)} queries to {out}/queries.jsonl")


if __name__ == "__main__":
    try:
        typer.run(scenes)
    except InputError as error:
        sys.exit(f"error: {error}")

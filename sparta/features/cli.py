"""The `extract` command."""

import os
from pathlib import Path
from typing import Annotated

import typer


def extract(
    photos: Annotated[Path, typer.Argument(help="Folder of photos, searched at any depth.")],
    backbone: Annotated[
        str, typer.Option(help="Hub name or folder of a vision network, or: pixels.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the features.")],
    image_size: Annotated[
        int | None,
        typer.Option(
            min=16, help="Side of the square photos are stretched to (default: the backbone's)."
        ),
    ] = None,
    labels: Annotated[
        int, typer.Option(min=0, help="Classes of the backbone's classifier to keep as words.")
    ] = 0,
    view: Annotated[str, typer.Option(help="plain, flip (mirrored) or crop:SEED.")] = "plain",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Photos per pass (default: by device).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Decoding processes, 0 for none (default: cores - 1).")
    ] = None,
) -> None:
    """Turn a folder of photos into image features: regions and their boxes.

    Photos that cannot be used are skipped and listed in OUT/skipped.jsonl.
    An interrupted run continues when started again.

    [bold]Examples[/bold]

    sparta extract photos/ --backbone google/mobilenet_v2_1.0_224 --labels 3 --out features/

    sparta extract photos/ --backbone pixels --out features/
    """
    # Read when torch is loaded. By default its threads spin while they wait for each other, and
    # where the decoding workers need the cores too, a run may take twenty times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from rich.console import Console
    from transformers.utils import logging

    from sparta.features.extract import extract_photos
    from sparta.features.writer import SKIPPED
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    console = Console()
    with progress_bars({"extract": ("Extracting", "photos")}, console) as show:
        report = extract_photos(
            photos,
            out,
            backbone,
            image_size=image_size,
            labels=labels,
            view=view,
            device=device,
            batch_size=batch_size,
            workers=workers,
            progress=lambda done, total: show("extract", done, total),
        )
    new = report.images + report.skipped - report.reused
    if not new:
        console.print(f"{out} is already complete: {report.images} images")
    else:
        rate = new / report.seconds
        console.print(
            f"{out}: {report.images} images, {new} photos in {report.seconds:.1f} s "
            f"({rate:.0f} photos/s)"
        )
    if report.skipped:
        console.print(f"{report.skipped} photos could not be used: see {out / SKIPPED}")

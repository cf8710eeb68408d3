"""`sparta eval similar`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import STAGES, check_out


def similar(
    context: typer.Context,
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    captions: Annotated[
        Path, typer.Option(help="Captions of all images of the index, as for sparta eval recall.")
    ],
    split: Annotated[str, typer.Option(help="Which photos of the captions to ask about.")] = "val",
    sample: Annotated[
        int | None, typer.Option(min=1, help="Ask about so many of them, drawn at random (seed 0).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Count how well photos agree with those found to be like them, by what people said of both.

    A photo asks with its 5, 10, 20, 50, 100 strongest terms, or all; each counts once, or by its
    impact, or by its share of 256, as sparta similar counts. Two photos agree by the cosine of the
    words of all their captions, rare words counting more (tf-idf). The figure is the mean over a
    photo's first ten hits, and where that lies between any photo (0 %) and the ten photos whose
    captions agree most (100 %).

    [bold]Examples[/bold]

    sparta eval similar index/ --captions captions.jsonl --split train --sample 1000

    sparta eval similar index/ --captions captions.jsonl --split val --json
    """
    import random

    from rich.console import Console

    from eval.report import report
    from eval.similar.measure import measure_query_by_image
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    check_out(out)
    asked = [photo.image_id for photo in read_captions(captions, split)]
    if sample is not None:
        asked = random.Random(0).sample(asked, min(sample, len(asked)))
    with progress_bars(STAGES, Console(stderr=True)) as show:
        found = measure_query_by_image(
            index, read_captions(captions), asked, lambda *steps: show("search", *steps)
        )
    report(found, context.params, out, as_json)

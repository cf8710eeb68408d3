"""`sparta eval similar`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import STAGES, AsJson, IndexFolder, Out, check_out


def similar(
    context: typer.Context,
    index: IndexFolder,
    captions: Annotated[
        Path, typer.Option(help="Captions of all images of the index, as for sparta eval index.")
    ],
    split: Annotated[str, typer.Option(help="Split of the photos that are queries.")] = "val",
    sample: Annotated[
        int | None, typer.Option(min=1, help="Number of queries, drawn at random (seed 0).")
    ] = None,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure query by image by the similarity of captions.

    A query is made of a photo's 5, 10, 20, 50 or 100 terms of the highest impact, or of all; a term
    is weighted by 1, by its impact, or by its share of 256, as sparta similar does. The similarity
    of two photos is the tf-idf cosine of all their captions. The figure is its mean over the first
    ten hits, also in percent of the range from a random photo (0 %) to the ten photos with the most
    similar captions (100 %).

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
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_query_by_image(index, read_captions(captions), asked, progress)
    report(found, context.params, out, as_json)

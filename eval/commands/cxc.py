"""`sparta eval cxc`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import (
    STAGES,
    AsJson,
    BatchSize,
    Device,
    Features,
    Models,
    Out,
    Transfer,
    check_out,
)


def cxc(
    context: typer.Context,
    model: Models,
    judgements: Annotated[
        Path, typer.Option(help="Folder of sits_SPLIT.csv, sts_SPLIT.csv and sis_SPLIT.csv.")
    ],
    captions: Annotated[
        Path, typer.Option(help="COCO's captions: dataset_coco.json or captions_val2014.json.")
    ],
    features: Features,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    transfer: Transfer = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure recall by human judgements: Crisscrossed Captions (CxC) of COCO, four directions.

    Captions and images search for captions and for images, among the 5,000 images of a split and
    five captions of each. Right are COCO's own pairs, and pairs that people rated 3 of 5 or higher
    (2.5 between two images); images without such another image are not queries. A sparse model has
    no vectors to compare two captions or two images, and is measured between captions and images
    only. Wrong items with an equal score rank ahead.

    Image ids of the features must end with COCO's number, as COCO's file names do.

    [bold]Example[/bold]

    sparta eval cxc model/ --features coco/ --judgements cxc/ --captions dataset_coco.json
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.cxc.files import read_judgements, read_sentences
    from eval.cxc.measure import measure_cxc
    from eval.cxc.relevance import relevant_items
    from eval.recall.model import open_members
    from eval.report import report
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    right = relevant_items(read_judgements(judgements, split))
    sentences = read_sentences(captions)
    members = open_members(model, features, transfer, device)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_cxc(members, right, sentences, batch_size, progress)
    report(found, context.params, out, as_json)

"""`sparta eval transfer`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import STAGES, AsJson, BatchSize, Device, Models, Out, check_out


def transfer(
    context: typer.Context,
    model: Models,
    features: Annotated[
        list[Path],
        typer.Option(help="Each data set's feature store, or its photos; in the same order."),
    ],
    captions: Annotated[list[Path], typer.Option(help="Each data set's captions, of any format.")],
    split: Annotated[
        str, typer.Option(help="Split to measure; one for all data sets, or a,b.")
    ] = "test",
    protocol: Annotated[
        str, typer.Option(help="all, coco-1k, coco-5k or flickr30k-1k; one for all, or a,b.")
    ] = "all",
    image_key: Annotated[
        str,
        typer.Option(help="Image id in COCO's and Karpathy's JSON; one for all, or a,b."),
    ] = "file",
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure models on data sets they were not trained on, beside their own.

    Every model is measured on every data set as `sparta eval model` does. Galleries of different
    sizes are not equally hard: compare models on one data set, not data sets with each other.

    The features of all data sets must be of the same kind; others are refused.

    [bold]Example[/bold]

    sparta eval transfer coco-model/ flickr-model/ --features coco/ --captions coco.jsonl
    --features flickr/ --captions flickr.jsonl --split test --out transfer.json
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.recall.transfer import data_sets, measure_transfer
    from eval.report import report
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    sets = data_sets(features, captions, split, protocol, image_key)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_transfer(model, sets, device, batch_size, progress)
    report(found, context.params, out, as_json)

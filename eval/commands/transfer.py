"""`sparta eval transfer`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import BATCH_SIZE, DEVICE, STAGES, check_out


def transfer(
    context: typer.Context,
    target: Annotated[list[str], typer.Argument(help="Model folders or hub names.")],
    features: Annotated[
        list[Path],
        typer.Option(help="Each data set's feature store, or its photos; in the same order."),
    ],
    captions: Annotated[list[Path], typer.Option(help="Each data set's captions, of any format.")],
    split: Annotated[
        str, typer.Option(help="Photos to look for; one for all data sets, or a,b.")
    ] = "test",
    protocol: Annotated[
        str, typer.Option(help="all, coco-1k, coco-5k or flickr30k-1k; one for all, or a,b.")
    ] = "all",
    image_key: Annotated[
        str,
        typer.Option(help="How COCO's and Karpathy's JSON name an image; one for all, or a,b."),
    ] = "file",
    batch_size: Annotated[int, BATCH_SIZE] = 32,
    device: Annotated[str, DEVICE] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Measure models on a data set they were not trained on, beside their own.

    Every model is measured by itself on every data set, as `sparta eval recall` does, and the rows
    are shown together. Give first the data set a model was trained on; with a second model, trained
    on the second data set, its row there says how much is lost on the way. Galleries of different
    sizes are not equally hard: compare models on one data set, not data sets with each other.

    The features of all data sets must be made in the same way; others are refused.

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
    with progress_bars(STAGES, Console(stderr=True)) as show:
        found = measure_transfer(target, sets, device, batch_size, show)
    report(found, context.params, out, as_json)

"""`sparta eval cxc`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import BATCH_SIZE, DEVICE, FEATURES, STAGES, TRANSFER, check_out


def cxc(
    context: typer.Context,
    target: Annotated[list[str], typer.Argument(help="Model folders or hub names.")],
    judgements: Annotated[
        Path, typer.Option(help="Folder of sits_SPLIT.csv, sts_SPLIT.csv and sis_SPLIT.csv.")
    ],
    captions: Annotated[
        Path, typer.Option(help="COCO's captions: dataset_coco.json or captions_val2014.json.")
    ],
    features: Annotated[list[Path], FEATURES],
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    transfer: Annotated[bool, TRANSFER] = False,
    batch_size: Annotated[int, BATCH_SIZE] = 32,
    device: Annotated[str, DEVICE] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Retrieval judged by people: the Crisscrossed Captions of COCO, in four ways.

    Captions and images look for each other and for their like, among the 5,000 images of a split
    and five captions of each. Right is what COCO itself says, and what people judged with at least
    3 of 5 (2.5 between two images); images without any such other image are left out. A sparse
    model has no vectors to compare captions with captions or images with images by, and is measured
    between captions and images alone.

    Image ids of the features must end with COCO's number, as COCO's file names do.

    [bold]Example[/bold]

    sparta eval cxc model/ --features coco/ --judgements cxc/ --captions dataset_coco.json
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.cxc.files import read_judgements, read_sentences
    from eval.cxc.measure import measure_cxc
    from eval.cxc.relevance import relevant_items
    from eval.recall.model_recall import open_members
    from eval.report import report
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    right = relevant_items(read_judgements(judgements, split))
    sentences = read_sentences(captions)
    members = open_members(target, features, transfer, device)
    with progress_bars(STAGES, Console(stderr=True)) as show:
        found = measure_cxc(members, right, sentences, batch_size, show)
    report(found, context.params, out, as_json)

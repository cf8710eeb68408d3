"""`sparta eval recall`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import (
    BATCH_SIZE,
    CAPTIONS,
    DEVICE,
    FEATURES,
    SPLIT,
    STAGES,
    TRANSFER,
    check_out,
)
from sparta.errors import InputError


def recall(
    context: typer.Context,
    target: Annotated[
        list[str], typer.Argument(help="Model folders or hub names, or one index folder.")
    ],
    captions: Annotated[Path, CAPTIONS],
    features: Annotated[list[Path] | None, FEATURES] = None,
    split: Annotated[str, SPLIT] = "val",
    protocol: Annotated[
        str, typer.Option(help="all, coco-1k, coco-5k, oscar-1k or flickr30k-1k.")
    ] = "all",
    images: Annotated[
        Path | None, typer.Option(help="oscar-1k's list: image ids or COCO numbers, one a line.")
    ] = None,
    transfer: Annotated[bool, TRANSFER] = False,
    backend: Annotated[
        str | None, typer.Option(help="Dense backend of the index to ask, by name.")
    ] = None,
    batch_size: Annotated[int, BATCH_SIZE] = 32,
    device: Annotated[str, DEVICE] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Count how often captions and photos find each other among the first 1, 5 and 10.

    A [bold]model[/bold], dense or VisualSparta, is measured in floating point and both ways; of
    several models the scores are averaged. text → image: each caption looks for its photo. image →
    text: each photo looks for the best of its captions, however many it has (videos have 20 or 10).
    Equal scores count against the model. An [bold]index[/bold] is asked every caption as a user
    would ask it: all its images take part, and equal scores go by image id.

    [bold]Protocols[/bold]

    all: the whole split. coco-5k: COCO's 5,000 photos, five captions each. coco-1k: the same in
    five folds of 1,000 consecutive photos of the captions file, averaged. oscar-1k: the photos
    listed in --images. flickr30k-1k: 1,000 photos, five captions each.

    [bold]Transfer[/bold]

    A model can be measured on another data set: give that set's features and captions. Features
    made in another way than those it was trained on are refused, unless --transfer says that they
    are meant.

    [bold]Examples[/bold]

    sparta eval recall model/ --features features/ --captions captions.jsonl

    sparta eval recall region/ grid/ --features regions/ --features grids/
    --captions captions.jsonl --split test --protocol coco-1k --json

    sparta eval recall index/ --captions captions.jsonl
    """
    from rich.console import Console

    from eval.report import Measured, report
    from indexer.manifest import is_index
    from sparta.progress import progress_bars
    from training.data.captions import read_captions

    check_out(out)
    index = Path(target[0]) if is_index(Path(target[0])) else None
    for_models = {
        "a second target": target[1:],
        "--features": features,
        "--protocol": protocol != "all",
        "--images": images,
        "--transfer": transfer,
    }
    if index and (wrong := [option for option, given in for_models.items() if given]):
        raise InputError(f"{index} is an index, asked as it is: leave out {', '.join(wrong)}")
    if not index and not features:
        raise InputError(f"{target[0]} is no index, and a model needs --features to be measured on")
    if not index and backend:
        raise InputError(f"{target[0]} is no index: --backend is for one")
    photos = read_captions(captions, split)
    found: Measured
    with progress_bars(STAGES, Console(stderr=True)) as show:
        if index:
            from eval.recall import open_searcher, recall_of

            searcher = open_searcher(index, backend)
            found = recall_of(searcher, photos, progress=lambda *steps: show("search", *steps))
        else:
            from transformers.utils import logging

            from eval.evaluate import evaluate, open_members
            from eval.protocols import choose

            logging.disable_progress_bar()
            folds = choose(protocol, photos, images)
            members = open_members(target, features or [], transfer, device)
            found = evaluate(members, protocol, folds, batch_size, show)
    report(found, context.params, out, as_json)

"""`sparta eval model`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import (
    STAGES,
    AsJson,
    BatchSize,
    Captions,
    Device,
    Features,
    ImageKey,
    Models,
    Out,
    Split,
    Transfer,
    check_image_key,
    check_out,
)
from sparta.errors import InputError

Protocol = Annotated[str, typer.Option(help="all, coco-1k, coco-5k, oscar-1k or flickr30k-1k.")]
ImageList = Annotated[
    Path | None, typer.Option(help="oscar-1k's list: image ids or COCO numbers, one a line.")
]
Reference = Annotated[
    str | None, typer.Option(help="Split of other photos: compare captions by probability.")
]
Temperature = Annotated[
    float, typer.Option(help="With --reference: the temperature the model was trained with.")
]


def model(
    context: typer.Context,
    model: Models,
    captions: Captions,
    features: Features,
    split: Split = "val",
    image_key: ImageKey = "file",
    protocol: Protocol = "all",
    images: ImageList = None,
    transfer: Transfer = False,
    reference: Reference = None,
    temperature: Temperature = 1.0,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure recall of models in both directions, in floating point; several are averaged.

    text → image: each caption searches for its photo. image → text: each photo searches for any of
    its captions. Wrong items with an equal score rank ahead.

    [bold]Protocols[/bold]: all is the whole split; coco-5k COCO's 5,000 photos with five captions
    each; coco-1k the mean over its five folds of 1,000 consecutive photos; oscar-1k the photos
    listed in --images; flickr30k-1k 1,000 photos with five captions each.

    [bold]image → text of VisualSparta[/bold] favours long captions, whose scores sum more terms.
    --reference names a split of other photos, and captions are compared by P(image | caption), the
    softmax that training used.

    [bold]Examples[/bold]

    sparta eval model model/ --features features/ --captions captions.jsonl

    sparta eval model region/ grid/ --features regions/ --features grids/
    --captions captions.jsonl --split test --protocol coco-1k --json
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.recall.model import measure_model_recall, open_members
    from eval.recall.protocols import choose
    from eval.recall.scores import ReferenceImages
    from eval.report import report
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    _check_reference(reference, temperature, split)
    key = check_image_key(image_key)
    folds = choose(protocol, read_captions(captions, split, image_key=key), images)
    members = open_members(model, features, transfer, device)
    others = None
    if reference is not None:
        ids = [photo.image_id for photo in read_captions(captions, reference, image_key=key)]
        others = ReferenceImages.sample(ids, temperature)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_model_recall(members, protocol, folds, batch_size, others, progress)
    report(found, context.params, out, as_json)


def _check_reference(reference: str | None, temperature: float, split: str) -> None:
    if reference is not None and reference == split:
        raise InputError(
            f"--reference {reference} is the measured split: name a split of other photos"
        )
    if not temperature > 0:
        raise InputError(f"--temperature {temperature:g}: expected a number above 0")
    if temperature != 1 and reference is None:
        raise InputError("--temperature goes with --reference")

"""`sparta eval recall`."""

from pathlib import Path
from typing import Annotated, Any

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

IMAGE_KEYS = ("file", "cocoid")


def recall(
    context: typer.Context,
    target: Annotated[
        list[str], typer.Argument(help="Model folders or hub names, or one index folder.")
    ],
    captions: Annotated[Path, CAPTIONS],
    features: Annotated[list[Path] | None, FEATURES] = None,
    split: Annotated[str, SPLIT] = "val",
    image_key: Annotated[
        str,
        typer.Option(help="How COCO's and Karpathy's JSON name an image: file, or cocoid."),
    ] = "file",
    protocol: Annotated[
        str, typer.Option(help="all, coco-1k, coco-5k, oscar-1k or flickr30k-1k.")
    ] = "all",
    images: Annotated[
        Path | None, typer.Option(help="oscar-1k's list: image ids or COCO numbers, one a line.")
    ] = None,
    transfer: Annotated[bool, TRANSFER] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="Split of other photos: compare captions by probability (see below)."),
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="With --reference: that of the model's training.")
    ] = 1.0,
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

    [bold]Image → text of VisualSparta[/bold]

    Its score sums a caption's terms, so that long captions lead every image's list. --reference
    names a split of other photos (up to 2,000 are taken) and compares captions q for an image v by
    P(v | q), the softmax that training used: score - T log mean exp(score / T), the mean over those
    photos, T being the --temperature of the run (config.yaml; the paper has none, that is 1). text
    → image stays as it is.

    [bold]Transfer[/bold]

    A model can be measured on another data set: give that set's features and captions. Features
    made in another way than those it was trained on are refused, unless --transfer says that they
    are meant.

    [bold]Examples[/bold]

    sparta eval recall model/ --features features/ --captions captions.jsonl

    sparta eval recall model/ --features features/ --captions captions.jsonl --split test
    --reference train --temperature 0.5

    sparta eval recall region/ grid/ --features regions/ --features grids/
    --captions captions.jsonl --split test --protocol coco-1k --json

    sparta eval recall index/ --captions captions.jsonl
    """
    from rich.console import Console

    from eval.report import Measured, report
    from indexer.manifest import is_index
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    check_out(out)
    index = is_index(Path(target[0]))
    _check_options(index, context.params)
    photos = read_captions(captions, split, image_key=image_key)  # type: ignore[arg-type]
    found: Measured
    with progress_bars(STAGES, Console(stderr=True)) as show:
        if index:
            from eval.recall.index_recall import measure_index_recall, open_searcher

            searcher = open_searcher(Path(target[0]), backend)
            found = measure_index_recall(
                searcher, photos, progress=lambda *steps: show("search", *steps)
            )
        else:
            from transformers.utils import logging

            from eval.recall.caption_prior import Reference
            from eval.recall.model_recall import measure_model_recall, open_members
            from eval.recall.protocols import choose

            logging.disable_progress_bar()
            folds = choose(protocol, photos, images)
            members = open_members(target, features or [], transfer, device)
            others = None
            if reference is not None:
                rest = read_captions(captions, reference, image_key=image_key)  # type: ignore[arg-type]
                others = Reference.sample([photo.image_id for photo in rest], temperature)
            found = measure_model_recall(members, protocol, folds, batch_size, show, others)
    report(found, context.params, out, as_json)


def _check_options(index: bool, given: dict[str, Any]) -> None:
    """Refuse what goes with models alone for an index, and the other way round."""
    first, *others = given["target"]
    for_models = {
        "a second target": others,
        "--features": given["features"],
        "--protocol": given["protocol"] != "all",
        "--images": given["images"],
        "--transfer": given["transfer"],
        "--reference": given["reference"],
    }
    wrong = [option for option, value in for_models.items() if value]
    if index and wrong:
        raise InputError(f"{first} is an index, asked as it is: leave out {', '.join(wrong)}")
    if not index and not given["features"]:
        raise InputError(f"{first} is no index, and a model needs --features to be measured on")
    if not index and given["backend"]:
        raise InputError(f"{first} is no index: --backend is for one")
    if given["reference"] is not None and given["reference"] == given["split"]:
        raise InputError(
            f"--reference {given['reference']} is what is measured: name a split of other photos"
        )
    if not given["temperature"] > 0:
        raise InputError(f"--temperature {given['temperature']:g}: expected a number above 0")
    if given["temperature"] != 1 and given["reference"] is None:
        raise InputError("--temperature goes with --reference")
    if given["image_key"] not in IMAGE_KEYS:
        raise InputError(f"--image-key {given['image_key']!r}: expected {' or '.join(IMAGE_KEYS)}")

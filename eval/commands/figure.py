"""`sparta eval figure`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from eval.commands.options import STAGES, BatchSize, Device, OptionalCaptions, Split

Name = Literal["coefficients", "k-max", "negatives", "views", "attention", "grounding"]


def figure(
    context: typer.Context,
    name: Annotated[Name, typer.Argument(help="Which figure.")],
    source: Annotated[list[str], typer.Argument(help="What it is drawn from, see above.")],
    out: Annotated[Path, typer.Option(help="PNG file; its numbers go beside it, as .json.")],
    features: Annotated[Path | None, typer.Option(help="Feature store.")] = None,
    captions: OptionalCaptions = None,
    split: Split = "val",
    photos: Annotated[Path | None, typer.Option(help="Photos (default: the source's).")] = None,
    image: Annotated[str | None, typer.Option(help="attention: id of the image.")] = None,
    caption: Annotated[
        list[str] | None, typer.Option(help="attention: a text to show under its nearest view.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="grounding: photos to draw.")] = 10,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Draw a figure of the papers from trained models, runs or an index.

    coefficients: the pooling a GPO MODEL has learned (GPO 5). k-max: RSUM of k-max pooling, from
    RUNS with a recall.json of sparta eval model (GPO 6). negatives: what ADOPT took at each step,
    from RUNS (VSE+2AD C-2). views: similarity and wins of the views of [NAME=]MODELS (MV-VSE 4).
    attention: where in a photo each view of a MODEL attends (MV-VSE 5). grounding: what in photos
    of an INDEX won the terms of their captions, at even distances in the order of ids
    (VisualSparta 3).

    For example:

    sparta eval figure coefficients model/ --out coefficients.png

    sparta eval figure views 0.7=joint/model 1=max/model --features features/
    --captions captions.jsonl --out views.png
    """
    from transformers.utils import logging

    from eval.figures.papers import FIGURES, Inputs
    from eval.plotting import check_picture, save
    from eval.report import head_of
    from sparta.console import Console
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    check_picture(out)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        given = Inputs(
            source, features, captions, split, photos, image, caption or [], count,
            batch_size, device, progress,
        )  # fmt: skip
        drawn, numbers = FIGURES[name](given)
    save(drawn, {**head_of(context), **numbers}, out)

"""`sparta figure views`."""

from typing import Annotated

import typer

from eval.commands.figures.options import FeatureStoreFolder, Picture
from eval.commands.options import STAGES, BatchSize, Captions, Device, Split
from sparta.errors import InputError


def views(
    context: typer.Context,
    model: Annotated[
        list[str], typer.Argument(metavar="[NAME=]MODEL...", help="Multi-view models.")
    ],
    features: FeatureStoreFolder,
    captions: Captions,
    out: Picture,
    split: Split = "val",
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Draw the similarity of a model's views, and how often each wins (MV-VSE, figure 4).

    [bold]Example[/bold]

    sparta figure views 0.7=runs/joint/model 1=runs/max/model --features features/
    --captions captions.jsonl --out views.png
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.figures.views import draw, measure_views
    from eval.plotting import check_picture, save
    from eval.recall.model_recall import open_members
    from eval.recall.models import DenseModel
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_picture(out)
    photos = read_captions(captions, split)
    named = [_named(text) for text in model]
    studies = []
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        for name, folder in named:
            (member,) = open_members([folder], [features], False, device)
            if not isinstance(member.model, DenseModel):
                raise InputError(f"{folder} is no dense model: it has no views")
            studies.append(
                measure_views(name, member.model, member.store, photos, batch_size, progress)
            )
    save(draw(studies), {"models": [vars(study) for study in studies]}, out, context.params)


def _named(text: str) -> tuple[str, str]:
    """Name and folder of [NAME=]MODEL; a path may contain a =."""
    name, _, folder = text.partition("=")
    return (text, text) if not folder or "/" in name else (name, folder)

"""`sparta bench precisions`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from eval.commands.bench.photos import use_cores
from eval.commands.options import (
    AsJson,
    OptionalCaptions,
    Out,
    Split,
    check_out,
)
from sparta.errors import InputError

Store = Annotated[Path, typer.Argument(help="Feature store of the model's features.")]
ModelName = Annotated[str, typer.Option(help="VisualSparta model: folder or name.")]
ImageCount = Annotated[int, typer.Option(min=1, help="Images that are encoded in a turn.")]
Turns = Annotated[int, typer.Option(min=1, help="Turns of each runtime and precision.")]


def precisions(
    context: typer.Context,
    features: Store,
    model: ModelName = "photos",
    captions: OptionalCaptions = None,
    split: Split = "val",
    images: ImageCount = 256,
    turns: Turns = 9,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Time encoding on this CPU in OpenVINO and torch, in float32, bfloat16 and int8.

    A turn goes from stored features to the trained terms' scores, as in sparta index on all cores;
    runtimes and precisions take turns. With captions, recall is measured among the photos of the
    split, with the impacts of an index with default settings. OpenVINO's bfloat16 is measured where
    the processor has it; its int8 takes the ranges of inputs from photos of other splits.

    [bold]Examples[/bold]

    sparta bench precisions index.features/plain --captions captions.jsonl --out precisions.json
    """
    use_cores(None)
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.encoding.precisions.measure import PrecisionPlan, measure_precisions
    from eval.report import report
    from sparta.captions.read import read_captions
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    store = FeatureStore.open(features)
    if images > len(store):
        raise InputError(f"--images {images}: {features} has {len(store)}")
    photos = read_captions(captions, split) if captions else []
    bars = {"turns": ("Encoding", "turns"), "recall": ("Measuring recall", "scorers")}
    with TemporaryDirectory() as work, progress_bars(bars, Console(stderr=True)) as progress:
        plan = PrecisionPlan(store, model, images, turns, photos, Path(work))
        found = measure_precisions(plan, progress)
    report(found, context.params, out, as_json)

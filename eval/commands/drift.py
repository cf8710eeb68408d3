"""`sparta eval drift`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import (
    STAGES,
    AsJson,
    BatchSize,
    Captions,
    Device,
    Out,
    Split,
    check_out,
)


def drift(
    context: typer.Context,
    features: Annotated[Path, typer.Argument(help="Feature store of all photos.")],
    captions: Captions,
    model: Annotated[str, typer.Option(help="VisualSparta model: folder or hub name.")] = "photos",
    split: Split = "val",
    batch_size: BatchSize = 32,
    device: Device = "auto",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what an index loses that was built from other photos than were added later.

    Offsets and scale are estimated from a part of the photos, drawn at random or as unlike the
    others as can be; all photos are encoded with them, and the captions of a split searched among
    all. Beside the loss of recall, against an index built from all photos, stands the drift that
    sparta info shows.

    The unlike photos are those at either end of the directions in which term scores vary most.

    [bold]Example[/bold]

    sparta eval drift features/ --captions captions.jsonl --out drift.json
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.pruning.drift import measure_drift
    from eval.report import report
    from sparta.captions.read import read_captions
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    check_out(out)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_drift(
            FeatureStore.open(features),
            model,
            read_captions(captions, split),
            batch_size=batch_size,
            device=device,
            progress=progress,
        )
    report(found, context.params, out, as_json)

"""`sparta bench index`."""

import os
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated

import typer

from eval.commands.options import AsJson, Out, check_out
from sparta.errors import InputError

FeatureFolder = Annotated[
    Path | None, typer.Argument(help="Feature store to encode (default: synthetic term scores).")
]
ModelName = Annotated[
    str | None, typer.Option(help="VisualSparta model: folder or hub name; with features.")
]
ImageCount = Annotated[int, typer.Option(min=1, help="Images of the index.")]
TopN = Annotated[int, typer.Option(min=1, help="Terms an image keeps.")]
Bits = Annotated[int, typer.Option(min=1, max=16, help="Bits of an impact.")]
Work = Annotated[
    Path | None, typer.Option(help="Folder to build in: 16 KB an image (default: temporary).")
]


def index(
    context: typer.Context,
    features: FeatureFolder = None,
    model: ModelName = None,
    images: ImageCount = 100_000,
    top_n: TopN = 1000,
    bits: Bits = 8,
    work: Work = None,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Time the building of an index from encoded images, and each stage of it.

    Starts from term scores in memory: the model's time is not included. About a thousand images
    are encoded and repeated under other ids. Each stage runs alone, for its processor time; then
    an index is built as sparta index does, on all cores, and removed.

    [bold]Examples[/bold]

    sparta bench index --images 20000

    sparta bench index features/ --model model/ --out index-speed.json
    """
    # As sparta index does: torch's waiting threads must leave the cores to the writers.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.indexing.encoded_images import encode_store, synthetic_images
    from eval.bench.indexing.measure import measure_indexing
    from eval.report import report
    from indexer.commands.building import STAGES
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    if (features is None) != (model is None):
        raise InputError("features and --model go together: give both or neither")
    folder = work or Path(gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    stages = STAGES | {"costs": ("Timing stages", "rounds"), "encode": ("Encoding", "images")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        if features is None or model is None:
            encoded = synthetic_images()
        else:
            encoded = encode_store(features, model, progress)
    with progress_bars(stages, Console(stderr=True)) as progress:
        found = measure_indexing(encoded, images, top_n, bits, folder, progress)
    report(found, context.params, out, as_json)

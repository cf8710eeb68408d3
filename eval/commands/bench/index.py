"""`sparta bench index`."""

import os
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated

import typer

from eval.commands.options import check_out
from sparta.errors import InputError


def index(
    context: typer.Context,
    features: Annotated[
        Path | None, typer.Argument(help="Feature store to encode (default: made-up term scores).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="VisualSparta model: folder or hub name; with features.")
    ] = None,
    images: Annotated[int, typer.Option(min=1, help="Images of the index.")] = 100_000,
    top_n: Annotated[int, typer.Option(min=1, help="Terms an image keeps.")] = 1000,
    bits: Annotated[int, typer.Option(min=1, max=16, help="Bits of an impact.")] = 8,
    work: Annotated[
        Path | None, typer.Option(help="Folder to build in: 16 KB an image (default: temporary).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Time the building of an index from encoded images, and each stage of it.

    Begins with term scores in memory: the model's own time is not in the figures. About a thousand
    images are encoded and come again and again under other ids. Each stage is run alone, for its
    processor time; then an index is built as sparta index does, on all cores, and removed.

    [bold]Examples[/bold]

    sparta bench index --images 20000

    sparta bench index features/ --model model/ --out index-speed.json
    """
    # As sparta index does: torch's threads must leave the cores to those who have work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.indexing.encoded_images import encode_store, make_up
    from eval.bench.indexing.measure import measure_indexing
    from eval.report import report
    from indexer.commands.output import STAGES
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    if (features is None) != (model is None):
        raise InputError("features and --model go together: give both or neither")
    folder = work or Path(gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    stages = STAGES | {
        "score": ("Scoring images", "images"),
        "costs": ("Timing stages", "rounds"),
        "encode": ("Pruning", "images"),
    }
    with progress_bars(stages, Console(stderr=True)) as show:
        if features is None or model is None:
            encoded = make_up()
        else:
            encoded = encode_store(features, model, lambda *steps: show("score", *steps))
        found = measure_indexing(encoded, images, top_n, bits, folder, show)
    report(found, context.params, out, as_json)

"""`sparta bench scale`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Out, check_out, parse_numbers
from sparta.errors import InputError

Features = Annotated[Path, typer.Argument(help="Feature store, whose shards are the blocks.")]
ModelName = Annotated[str, typer.Option(help="VisualSparta model: folder or name.")]
Workers = Annotated[str, typer.Option(help="Numbers of workers, each on a core of its own.")]
Blocks = Annotated[int, typer.Option(min=2, help="Blocks to encode, at least two a worker.")]


def scale(
    context: typer.Context,
    features: Features,
    model: ModelName = "photos",
    workers: Workers = "1,2",
    blocks: Blocks = 16,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what sparta index --ray does with more workers, and what Ray takes for a block.

    The same blocks are encoded on one core without Ray, then by workers of a cluster that is
    started on this machine, each on a core of its own. Blocks of no work show what Ray adds to
    each. More machines cannot be measured on one; what follows for them is in docs/scale-out.md.

    [bold]Examples[/bold]

    sparta bench scale features/ --workers 1,2 --out scale.json
    """
    from rich.console import Console

    from eval.bench.scaling.measure import measure_scale
    from eval.report import report
    from sparta.features.store import FeatureStore
    from sparta.libraries import set_up_libraries
    from sparta.progress import progress_bars

    set_up_libraries()
    check_out(out)
    counts = parse_numbers(workers, "--workers")
    if blocks < 2 * max(counts):
        raise InputError(f"--blocks {blocks}: at least two a worker are needed")
    stages = {"encode": ("Encoding", "blocks")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        found = measure_scale(FeatureStore.open(features), model, counts, blocks, progress)
    report(found, context.params, out, as_json)

"""`sparta bench live`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Work = Annotated[
    Path,
    typer.Option(help="Folder for the index that is made; the next measurement takes it again."),
]
ImageCount = Annotated[int, typer.Option(min=100, help="Images of the index that is made.")]
Kind = Annotated[
    str, typer.Option(help="copies: near-copies of the images of INDEX; mixed: each of two.")
]
TopN = Annotated[
    int | None, typer.Option(min=1, help="Terms an image keeps (default: all it has).")
]
Seconds = Annotated[
    float, typer.Option(min=0.1, help="Of searches at rest, beside steady writes, after deletions.")
]
Rate = Annotated[int, typer.Option(min=1, help="Steady writes a second.")]
Singles = Annotated[int, typer.Option(min=1, help="Images added one by one.")]
Batched = Annotated[int, typer.Option(min=1, help="Images added in batches.")]
Batch = Annotated[int, typer.Option(min=1, help="Images of a batch.")]
Seed = Annotated[int, typer.Option(help="Of the images that are drawn.")]

STAGES = {"write": ("Making the index", "images"), "measure": ("Measuring", "steps")}


def live(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    work: Work,
    images: ImageCount = 10_000,
    kind: Kind = "mixed",
    top_n: TopN = None,
    k: Hits = 10,
    seconds: Seconds = 20,
    rate: Rate = 100,
    singles: Singles = 50,
    batched: Batched = 20_000,
    batch: Batch = 512,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what writing to an index costs, and what its searches notice of it.

    Makes an index of the images of INDEX. One process writes to it: images one by one, at a steady
    rate with a commit a second, and in batches until columns are merged; metadata; deletions of a
    third. Another one searches with both engines in turn, which follow every commit.

    Images are encoded before: their term weights are drawn, as those of the index are.

    [bold]Examples[/bold]

    sparta bench live index/ --queries captions.txt --work bench/ --images 113287

    sparta bench live index/ --queries captions.txt --work bench/ --images 1000000 --top-n 300
    """
    from rich.console import Console

    from eval.bench.live.measure import measure_live
    from eval.bench.live.plan import LivePlan
    from eval.bench.query_latency.collections.enlarge import KINDS
    from eval.bench.query_latency.collections.queries import read_queries
    from eval.report import report
    from sparta.errors import InputError
    from sparta.progress import progress_bars

    check_out(out)
    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    plan = LivePlan(
        images,
        kind,
        top_n,
        k,
        seconds,
        rate,
        singles,
        batched,
        batch,
        seed,
    )
    work.mkdir(parents=True, exist_ok=True)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_live(index, work, read_queries(queries), plan, progress)
    report(found, context.params, out, as_json)

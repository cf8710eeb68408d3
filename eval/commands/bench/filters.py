"""`sparta bench filters`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Work = Annotated[
    Path, typer.Option(help="Folder for what is made; the next measurement takes it again.")
]
ImageCount = Annotated[int, typer.Option(min=100, help="Images of the indexes that are made.")]
TopN = Annotated[
    int | None, typer.Option(min=1, help="Terms an image keeps (default: all it has).")
]
Seed = Annotated[int, typer.Option(help="Of the images, those let through, and the metadata.")]

STAGES = {
    "write": ("Making the index", "images"),
    "describe": ("Drawing metadata", "images"),
    "measure": ("Measuring", "filters"),
}


def filters(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    work: Work,
    images: ImageCount = 10_000,
    top_n: TopN = None,
    k: Hits = 10,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what filters cost: searches among some of the images, and a filter's first use.

    Makes two indexes of the images of INDEX, one of near-copies and one whose images are mixtures
    of two. In each, searches in columns without a filter and with one that lets a half, 1 % or
    0.01 % of the images through, chosen at random or alike, are timed in turn, and some answers
    are compared with the best of all scores. Then filters of each kind are timed when they are used
    for the first time, on metadata drawn at random.

    [bold]Examples[/bold]

    sparta bench filters index/ --queries captions.txt --work bench/ --images 1000000
    """
    from rich.console import Console

    from eval.bench.filters.measure import measure_filters
    from eval.bench.filters.plan import FilterPlan
    from eval.bench.query_latency.collections.queries import read_queries
    from eval.report import report
    from sparta.progress import progress_bars

    check_out(out)
    plan = FilterPlan(images, top_n=top_n, k=k, seed=seed)
    work.mkdir(parents=True, exist_ok=True)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_filters(index, work, read_queries(queries), plan, progress)
    report(found, context.params, out, as_json)

"""`sparta bench collections`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, IndexFolder, Out, check_out

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
TopN = Annotated[
    int | None, typer.Option(min=1, help="Terms an image keeps (default: all it has).")
]
Limit = Annotated[int, typer.Option(min=2, help="Distinct queries at most.")]
Seed = Annotated[int, typer.Option(help="Of the images that are made.")]

STAGES = {"measure": ("Measuring", "collections")}


def collections(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    top_n: TopN = None,
    limit: Limit = 500,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure how alike the images of INDEX and the collections made of them are.

    Benchmarks enlarge an index by copies of its images, by mixtures of two, or by images drawn from
    a distribution fitted to them. For as many images of each kind as the index has: how far
    document frequencies are off, how words of a query correlate, how near neighbours are, and how
    tight the bounds are that a search in columns passes blocks of images over by.

    [bold]Example[/bold]

    sparta bench collections index/ --queries captions.txt --top-n 1000
    """
    from rich.console import Console

    from eval.bench.collections.measure import measure_collections
    from eval.bench.query_latency.collections.impact_source import read_source
    from eval.bench.query_latency.collections.queries import read_queries, tokenise
    from eval.report import report
    from sparta.progress import progress_bars
    from sparta.tokenizer import WordPieceTokenizer

    check_out(out)
    source = read_source(index)
    asked = tokenise(read_queries(queries), WordPieceTokenizer.from_folder(index), limit)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_collections(source, asked, top_n, seed, progress)
    report(found, context.params, out, as_json)

"""`sparta bench milvus`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out

Address = Annotated[
    str, typer.Argument(metavar="URI", help="Of Milvus, such as milvus://127.0.0.1:19530.")
]
Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
QueryCount = Annotated[int, typer.Option(min=1, help="Queries that are timed, the first ones.")]
Name = Annotated[str, typer.Option(help="Name of the collection, which is made and dropped.")]
Seed = Annotated[int, typer.Option(help="Of the images that filters let through.")]

STAGES = {"push": ("Pushing", "images"), "measure": ("Measuring", "queries")}


def milvus(
    context: typer.Context,
    index: IndexFolder,
    uri: Address,
    queries: Queries,
    query_count: QueryCount = 500,
    collection: Name = "bench",
    k: Hits = 10,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure an index in Milvus beside its columns: the push, and searches.

    Pushes INDEX into a collection of its own, times each query in columns and in Milvus in turn,
    among all images, a half and 1 % of them, compares the hits, and drops the collection.

    [bold]Examples[/bold]

    sparta bench milvus index/ milvus://127.0.0.1:19530 --queries captions.txt
    """
    from rich.console import Console

    from eval.bench.milvus import measure_milvus
    from eval.bench.query_latency.collections.queries import read_queries
    from eval.report import report
    from sparta.progress import progress_bars

    check_out(out)
    texts = read_queries(queries)[:query_count]
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_milvus(index, uri, collection, texts, k, seed, progress)
    report(found, context.params, out, as_json)

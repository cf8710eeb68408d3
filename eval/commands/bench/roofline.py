"""`sparta bench roofline`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, IndexFolder, Out, check_out, parse_numbers

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Work = Annotated[
    Path, typer.Option(help="Folder for what is made; the next measurement takes it again.")
]
Kinds = Annotated[str, typer.Option("--kind", help="Collections: of copies, mixed, drawn.")]
ImageCount = Annotated[int, typer.Option(min=100, help="Images of a collection.")]
TopN = Annotated[
    int | None, typer.Option(min=1, help="Terms an image keeps (default: all it has).")
]
Ks = Annotated[str, typer.Option("-k", help="Hits per query.")]
Limit = Annotated[int, typer.Option(min=2, help="Distinct queries at most.")]

STAGES = {"measure": ("Measuring", "cases")}


def roofline(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    work: Work,
    kind: Kinds = "copies,mixed,drawn",
    images: ImageCount = 100_000,
    top_n: TopN = None,
    k: Ks = "10",
    limit: Limit = 1000,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what bounds a search in columns: memory, or adds.

    Counts the bytes that a search must read and the impacts that it must add, measures how many one
    core of this machine reads and adds a second, and times searches of the same collections.

    [bold]Example[/bold]

    sparta bench roofline index/ --queries captions.txt --work bench/ --images 1000000 --top-n 1000
    """
    from rich.console import Console

    from eval.bench.query_latency.collections.enlarge import pick_kinds
    from eval.bench.query_latency.collections.impact_source import read_source
    from eval.bench.query_latency.collections.queries import read_queries, tokenise
    from eval.bench.roofline.measure import measure_roofline
    from eval.report import report
    from sparta.progress import progress_bars
    from sparta.tokenizer import WordPieceTokenizer

    check_out(out)
    kinds = pick_kinds(kind)
    ks = parse_numbers(k, "-k")
    source = read_source(index)
    asked = tokenise(read_queries(queries), WordPieceTokenizer.from_folder(index), limit)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_roofline(source, asked, kinds, images, top_n, ks, work, progress)
    report(found, context.params, out, as_json)

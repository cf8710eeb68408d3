"""`sparta bench visited`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Work = Annotated[
    Path, typer.Option(help="Folder for what is made; the next measurement takes it again.")
]
Kinds = Annotated[str, typer.Option("--kind", help="Collections: of mixed, drawn, copies.")]
ImageCount = Annotated[int, typer.Option(min=100, help="Images of a collection.")]
TopN = Annotated[
    int | None, typer.Option(min=1, help="Terms an image keeps (default: all it has).")
]
Shares = Annotated[str, typer.Option(help="Shares of the superblocks, with commas; 1 for all.")]
Limit = Annotated[int, typer.Option(min=2, help="Distinct queries at most.")]

STAGES = {"measure": ("Measuring", "collections")}


def visited(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    work: Work,
    kind: Kinds = "mixed,drawn,copies",
    images: ImageCount = 100_000,
    top_n: TopN = None,
    shares: Shares = "1,0.5,0.3,0.2,0.1,0.05",
    k: Hits = 10,
    limit: Limit = 1000,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what a cap on the visited superblocks saves, and which hits it costs.

    Searches with every cap take turns. A hit counts as found if its score reaches that of the
    last exact one.

    [bold]Example[/bold]

    sparta bench visited index/ --queries captions.txt --work bench/ --images 1000000 --top-n 1000
    """
    from rich.console import Console

    from eval.bench.query_latency.collections.enlarge import parse_kinds
    from eval.bench.query_latency.collections.impact_source import read_source
    from eval.bench.query_latency.collections.queries import read_queries, tokenise
    from eval.bench.visited.measure import measure_visited
    from eval.report import report
    from sparta.progress import progress_bars
    from sparta.tokenizer import WordPieceTokenizer

    check_out(out)
    kinds, wanted = parse_kinds(kind), _parse_shares(shares)
    source = read_source(index)
    asked = tokenise(read_queries(queries), WordPieceTokenizer.from_folder(index), limit)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_visited(source, asked, kinds, wanted, images, top_n, k, work, progress)
    report(found, context.params, out, as_json)


def _parse_shares(text: str) -> list[float]:
    """Falling shares, each once.

    Raises:
        InputError: if one is not above 0 and at most 1.
    """
    from sparta.errors import InputError

    try:
        shares = {float(part) for part in text.split(",")}
    except ValueError:
        shares = {0.0}
    if not all(0 < share <= 1 for share in shares):
        raise InputError(f"--shares takes numbers above 0 and up to 1, with commas, not {text!r}")
    return sorted(shares, reverse=True)

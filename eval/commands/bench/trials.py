"""`sparta bench trials`."""

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
Turns = Annotated[int, typer.Option(min=1, help="How often a query is timed; the fastest counts.")]
Names = Annotated[str, typer.Option("--trials", help="Names of trials, with commas, or all.")]

STAGES = {"compile": ("Compiling", "trials"), "measure": ("Measuring", "cases")}


def trials(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    work: Work,
    kind: Kinds = "mixed,copies,drawn",
    images: ImageCount = 100_000,
    top_n: TopN = None,
    k: Ks = "10,1000",
    limit: Limit = 150,
    turns: Turns = 3,
    names: Names = "all",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Time changes of the columns kernel, and of their layout, beside what ships.

    A trial is a patch of the C sources in eval/bench/trials/patches, or other parameters of the
    layout. Each is compiled as the package is, must give the same answers, and is timed in turns
    with the kernel that ships. Needs a checkout, git and a C compiler.

    [bold]Example[/bold]

    sparta bench trials index/ --queries captions.txt --work bench/ --top-n 1000 --trials batch-8
    """
    from rich.console import Console

    from eval.bench.query_latency.collections.enlarge import parse_kinds
    from eval.bench.query_latency.collections.impact_source import read_source
    from eval.bench.query_latency.collections.queries import read_queries, tokenise
    from eval.bench.trials.measure import Plan, measure_trials
    from eval.bench.trials.trial import pick_trials
    from eval.report import report
    from sparta.progress import progress_bars
    from sparta.tokenizer import WordPieceTokenizer

    check_out(out)
    chosen, kinds, ks = pick_trials(names), parse_kinds(kind), parse_numbers(k, "-k")
    asked = tokenise(read_queries(queries), WordPieceTokenizer.from_folder(index), limit)
    plan = Plan(read_source(index), asked, kinds, images, top_n, ks, turns, work)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_trials(plan, chosen, progress=progress)
    report(found, context.params, out, as_json)

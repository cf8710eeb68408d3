"""`sparta bench speed`."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

OutFolder = Annotated[Path, typer.Option(help="Folder for figures, tables and plots.")]
SourceIndex = Annotated[
    Path | None,
    typer.Argument(
        help="Index to enlarge, best built with --top-n all (default: synthetic images)."
    ),
]
Queries = Annotated[
    Path | None, typer.Option(help="Text file, one query a line; required with an index.")
]
Sizes = Annotated[str, typer.Option(help="Numbers of images.")]
TopN = Annotated[str, typer.Option(help="Terms an image keeps: numbers, or all.")]
Kind = Annotated[
    str,
    typer.Option(help="copies of images, mixed: each of two, or drawn: like them, none a copy."),
]
Engines = Annotated[
    str | None,
    typer.Option(help="Of those listed below (default: all)."),
]
Dense = Annotated[
    list[str] | None,
    typer.Option(help="Dense part of the index, or clustered: synthetic vectors (default)."),
]
Ks = Annotated[str, typer.Option("-k", help="Hits per query.")]
Threads = Annotated[str, typer.Option(help="Numbers of threads that search at once.")]
WarmUp = Annotated[float, typer.Option(min=0, help="Seconds for each engine and cell.")]
Seconds = Annotated[float, typer.Option(min=0, help="Timed seconds for each engine and cell.")]
Limit = Annotated[int, typer.Option(min=2, help="Distinct queries at most.")]
RecallFile = Annotated[
    Path | None, typer.Option(help="JSON of sparta eval pruning: plots recall against time.")
]
Work = Annotated[
    Path | None, typer.Option(help="Folder for collections and indexes (default: OUT/work).")
]


def speed(
    context: typer.Context,
    out: OutFolder,
    index: SourceIndex = None,
    queries: Queries = None,
    sizes: Sizes = "1000,5000",
    top_n: TopN = "1000,50,100,500,2000,all",
    kind: Kind = "copies",
    engines: Engines = None,
    dense: Dense = None,
    k: Ks = "10,100",
    threads: Threads = "1,2",
    warm_up: WarmUp = 3,
    seconds: Seconds = 5,
    limit: Limit = 2000,
    recall: RecallFile = None,
    work: Work = None,
) -> None:
    """Time engines on the same growing collections (VisualSparta, tables 2 and 3, figure 1).

    A collection is made of an index's images: near-copies, drawn ones or mixtures. Engines answer
    the same queries in turns; the first hundred answers of every cell are verified.

    Sparse engines: lucene, columns, bm25s. Dense engines: numpy, faiss-flat, faiss-hnsw, mv-flat
    (several vectors an image), timed at the first --top-n. A million images take 2 to 8 GB of
    memory an engine, and up to 15 GB on disk during the build: choose a few engines at a time.
    Cells that OUT holds are not measured again.

    [bold]Example[/bold]

    sparta bench speed index/ --queries captions.txt --out speed/ --sizes 1000,113287
    --engines lucene,columns,numpy --dense vse-inf --dense clustered
    """
    from eval.bench.query_latency.choices import check_choices
    from eval.bench.query_latency.measure import measure_latency
    from eval.bench.query_latency.plan import make_plan
    from eval.bench.query_latency.reporting.plots import read_recall, save_plots
    from eval.bench.query_latency.reporting.results_file import Results
    from eval.bench.query_latency.timing import Pace
    from eval.machine import circumstances

    known, pace = read_recall(recall) if recall else {}, Pace(warm_up, seconds)
    choices = check_choices(
        sizes=sizes,
        top_n=top_n,
        kind=kind,
        engines=engines,
        k=k,
        threads=threads,
        dense=dense or ["clustered"],
        pace=pace,
        limit=limit,
    )
    _log_to_terminal()
    results = Results.open(out)
    results.begin({"arguments": _arguments(context), **asdict(pace), **circumstances()})
    plan = make_plan(index, queries, choices, work or out / "work", results)
    measure_latency(plan, results)
    _print_tables(results, out)
    save_plots(results, out, known)


def _arguments(context: typer.Context) -> dict[str, Any]:
    """The command's arguments; of a path only the name, which is all that matters to others."""
    return {
        key: value.name if isinstance(value, Path) else value and str(value)
        for key, value in context.params.items()
    }


def _log_to_terminal() -> None:
    """Show what is built and measured, as it happens."""
    from rich.console import Console
    from rich.logging import RichHandler
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    console = Console(stderr=True, soft_wrap=True)
    logger = logging.getLogger("eval.bench.query_latency")
    logger.handlers = [RichHandler(console=console, show_level=False, show_path=False)]
    logger.setLevel(logging.INFO)


def _print_tables(results: Any, out: Path) -> None:
    from rich.console import Console

    from eval.bench.query_latency.reporting.markdown import markdown, shown
    from eval.bench.query_latency.reporting.tables import sheets

    for sheet in sheets(results):
        typer.echo(sheet.title)
        Console().print(shown(sheet))
    (out / "speed.md").write_text(markdown(results), encoding="utf-8")

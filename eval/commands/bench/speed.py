"""`sparta bench speed`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def speed(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for figures, tables and plots.")],
    index: Annotated[
        Path | None,
        typer.Argument(help="Index to enlarge, best one of --top-n all (default: made-up images)."),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Text file, one query a line; with an index.")
    ] = None,
    sizes: Annotated[str, typer.Option(help="Numbers of images.")] = "1000,5000",
    top_n: Annotated[
        str, typer.Option(help="Terms an image keeps: numbers, or all.")
    ] = "1000,50,100,500,2000,all",
    kind: Annotated[
        str, typer.Option(help="copies of images, or each mixed from two: no near-copies.")
    ] = "copies",
    engines: Annotated[
        str | None, typer.Option(help="Of those listed below (default: all but seismic).")
    ] = None,
    dense: Annotated[
        list[str] | None,
        typer.Option(help="Dense part of the index, or clustered: made-up vectors (default)."),
    ] = None,
    k: Annotated[str, typer.Option("-k", help="Images of an answer.")] = "10,100",
    threads: Annotated[str, typer.Option(help="Numbers of threads that ask at once.")] = "1,2",
    warm_up: Annotated[float, typer.Option(min=0, help="Seconds, each engine and cell.")] = 3,
    seconds: Annotated[float, typer.Option(min=0, help="Timed, each engine and cell.")] = 5,
    limit: Annotated[int, typer.Option(min=2, help="Distinct queries at most.")] = 2000,
    recall: Annotated[
        Path | None, typer.Option(help="JSON of sparta eval pruning: draws recall against time.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder for collections and indexes (default: OUT/work).")
    ] = None,
) -> None:
    """Time engines side by side over growing collections (VisualSparta, tables 2 and 3, figure 1).

    Collections of any size are drawn from an index's images with replacement, every weight
    perturbed by 15 %. All engines are built from the same collection and asked the same queries
    in turn, a block each; the first hundred answers of every cell are held against the right ones.

    Sparse engines: lucene, columns, scipy, bm25s, maxscore, wand, bmp, seismic. Dense ones:
    numpy, faiss-flat, faiss-hnsw, faiss-ivfpq, mv-flat (several vectors an image); they are timed
    beside the sparse ones at the first --top-n. A million images of 1,000 terms or 1,024 numbers
    take 2 to 8 GB of memory an engine, and up to 15 GB on disk while it is built: name a few at a
    time. What OUT already holds is not measured again, so that runs add up and an interrupted one
    goes on.

    [bold]Examples[/bold]

    sparta bench speed --out speed/

    sparta bench speed index/ --queries captions.txt --out speed/ --sizes 1000,113287
    --engines lucene,columns,numpy --dense vse-inf --dense clustered
    """
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.query_latency.measure import measure_latency
    from eval.bench.query_latency.plan import check_choices, make_plan
    from eval.bench.query_latency.reporting.markdown import markdown, shown
    from eval.bench.query_latency.reporting.plots import read_recall, save_plots
    from eval.bench.query_latency.reporting.results_file import Results
    from eval.bench.query_latency.reporting.tables import sheets
    from eval.bench.query_latency.timing import Pace
    from eval.machine import circumstances

    logging.disable_progress_bar()
    known = read_recall(recall) if recall else {}
    choices = check_choices(
        sizes=sizes, top_n=top_n, kind=kind, engines=engines, k=k, threads=threads
    )
    results, console = Results.open(out), Console(stderr=True, log_path=False, soft_wrap=True)
    # Of a path the name alone: the rest says nothing about the measurement.
    arguments = {
        key: value.name if isinstance(value, Path) else value and str(value)
        for key, value in context.params.items()
    }
    pace = Pace(warm_up, seconds)
    results.begin({"arguments": arguments, **asdict(pace), **circumstances()})
    plan = make_plan(
        index,
        queries,
        choices,
        dense or ["clustered"],
        pace,
        limit,
        work or out / "work",
        results,
        console.log,
    )
    measure_latency(plan, results, console.log)
    for sheet in sheets(results):
        typer.echo(sheet.title)
        Console().print(shown(sheet))
    (out / "speed.md").write_text(markdown(results), encoding="utf-8")
    save_plots(results, out, known)

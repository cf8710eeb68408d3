"""The `sparta bench` commands."""

import os
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Annotated, Any

import typer

from eval.commands.options import AsJson, Device, Hits, IndexFolder, Out, check_out, parse_numbers
from sparta.errors import InputError

# ---- speed -------------------------------------------------------------------------------------

OutFolder = Annotated[Path, typer.Option(help="Folder for figures, tables and plots.")]
SourceIndex = Annotated[
    Path | None,
    typer.Argument(
        help="Index to enlarge, best built with --top-n all (default: synthetic images)."
    ),
]
SpeedQueries = Annotated[
    Path | None, typer.Option(help="Text file, one query a line; required with an index.")
]
Sizes = Annotated[str, typer.Option(help="Numbers of images.")]
TopNs = Annotated[str, typer.Option(help="Terms an image keeps: numbers, or all.")]
Kind = Annotated[
    str,
    typer.Option(help="copies of images, mixed: each of two, or drawn: like them, none a copy."),
]
Engines = Annotated[str | None, typer.Option(help="Of those listed below (default: all).")]
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
SpeedWork = Annotated[
    Path | None, typer.Option(help="Folder for collections and indexes (default: OUT/work).")
]


def speed(
    context: typer.Context,
    out: OutFolder,
    index: SourceIndex = None,
    queries: SpeedQueries = None,
    sizes: Sizes = "1000,5000",
    top_n: TopNs = "1000,50,100,500,2000,all",
    kind: Kind = "copies",
    engines: Engines = None,
    dense: Dense = None,
    k: Ks = "10,100",
    threads: Threads = "1,2",
    warm_up: WarmUp = 3,
    seconds: Seconds = 5,
    limit: Limit = 2000,
    recall: RecallFile = None,
    work: SpeedWork = None,
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
    from eval.bench.collections import check_kind
    from eval.bench.engines import ENGINES
    from eval.bench.plots import read_recall, save_plots
    from eval.bench.speed import Choices, make_plan, measure_speed
    from eval.bench.tables import Results
    from eval.bench.timing import Pace
    from eval.machine import circumstances
    from eval.report import arguments_of

    known, pace = read_recall(recall) if recall else {}, Pace(warm_up, seconds)
    choices = Choices(
        kind=check_kind(kind),
        sizes=parse_numbers(sizes, "--sizes"),
        top_n=_top_ns(top_n),
        ks=parse_numbers(k, "-k"),
        threads=parse_numbers(threads, "--threads"),
        engines=[name.strip() for name in engines.split(",")] if engines else [*ENGINES],
        dense=dense or ["clustered"],
        limit=limit,
        pace=pace,
        work=work or out / "work",
    )
    _log_to_terminal()
    results = Results.open(out)
    results.begin({"arguments": arguments_of(context), **asdict(pace), **circumstances()})
    plan = make_plan(index, queries, choices, results)
    measure_speed(plan, results)
    _print_tables(results, out)
    save_plots(results, out, known)


def _top_ns(text: str) -> list[int | None]:
    """In the order given: the first is special."""
    parts = [part.strip() for part in text.split(",")]
    return [None if part == "all" else parse_numbers(part, "--top-n")[0] for part in parts]


def _log_to_terminal() -> None:
    """Show what is built and measured, as it happens."""
    import logging

    from rich.console import Console
    from rich.logging import RichHandler
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    console = Console(stderr=True, soft_wrap=True)
    logger = logging.getLogger("eval.bench.speed")
    logger.handlers = [RichHandler(console=console, show_level=False, show_path=False)]
    logger.setLevel(logging.INFO)


def _print_tables(results: Any, out: Path) -> None:
    from rich.console import Console

    from eval.bench.tables import markdown, sheets, shown

    for sheet in sheets(results):
        typer.echo(sheet.title)
        Console().print(shown(sheet))
    (out / "speed.md").write_text(markdown(results), encoding="utf-8")


# ---- build -------------------------------------------------------------------------------------

Photos = Annotated[Path, typer.Argument(help="Folder of photos, or a feature store.")]
ModelName = Annotated[
    str, typer.Option(help="VisualSparta model: folder, hub name, photos or sample.")
]
PhotoCount = Annotated[
    int | None, typer.Option(min=1, help="Photos to take, the first by name (default: all).")
]
TopN = Annotated[
    int | None, typer.Option(min=1, help="Terms an image keeps (default: that of sparta index).")
]
Work = Annotated[
    Path | None, typer.Option(help="Folder to build in: 20 KB a photo (default: temporary).")
]


def build(
    context: typer.Context,
    photos: Photos,
    model: ModelName = "photos",
    images: PhotoCount = None,
    top_n: TopN = None,
    device: Device = "auto",
    work: Work = None,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Time the way from photos to an index: its stages, their memory, and the sizes on disk.

    Builds an index as sparta index does, in this process, and removes it. Extraction turns photos
    into features; encoding turns features into pruned impacts, while Lucene is being written; the
    rest, the merge of Lucene and the columns, is the stage "index". A feature store skips the
    extraction. With --out the table is written as Markdown beside the JSON file.

    [bold]Examples[/bold]

    sparta bench build ~/Pictures --images 1000 --out build.json

    sparta bench build features/ --model model/ --top-n 1000
    """
    # As sparta index does: torch's waiting threads must leave the cores to the writers.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    from rich.console import Console
    from transformers.utils import logging

    from eval.bench.build import measure_build
    from eval.report import head_of, report
    from indexer.commands.building import STAGES
    from indexer.encoding.models import load_models, model_fingerprint
    from indexer.settings import USUAL, PruningSettings
    from sparta.progress import progress_bars

    logging.disable_progress_bar()
    check_out(out)
    folder = work or Path(gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    pruning = PruningSettings(top_n=top_n or USUAL.top_n)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_build(
            photos,
            model,
            folder,
            images=images,
            pruning=pruning,
            device=device,
            progress=progress,
        )
    (loaded,), _ = load_models([model], torch.device("cpu"))
    report(found, head_of(context, [model_fingerprint(loaded)]), out, as_json, markdown=True)


# ---- serve -------------------------------------------------------------------------------------

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Connections = Annotated[str, typer.Option(help="Numbers of connections.")]
LoadSeconds = Annotated[int, typer.Option(min=1, help="For each load.")]
EngineNames = Annotated[
    str, typer.Option("--engine", help="Engines to serve with, as in sparta serve --engine.")
]
Workers = Annotated[str, typer.Option(help="Numbers of worker processes to serve with.")]
ImageCount = Annotated[
    int | None,
    typer.Option(min=1, help="Images of an enlarged index (default: the index as it is)."),
]
Writes = Annotated[
    int,
    typer.Option(
        metavar="PER_SECOND",
        min=0,
        help="Images a second that are added to a copy of the index beside a second load.",
    ),
]

SERVE_STAGES = {"write": ("Enlarging", "images"), "load": ("Load", "loads")}


def serve(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    connections: Connections = "1,8,32",
    seconds: LoadSeconds = 10,
    engine: EngineNames = "auto",
    workers: Workers = "1",
    images: ImageCount = None,
    writes: Writes = 0,
    k: Hits = 10,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Put the REST interface under load: requests a second, and their latencies.

    Starts sparta serve for each engine and number of workers, warms it up, and lets wrk send
    GET /v1/search over each number of connections; wrk's own share of the cores is in the JSON.
    With --writes each load runs again beside a writer, which also measures how long it takes until
    a write is acknowledged, and until searches find it. The index may be divided into shards.
    --images builds a temporary index: images drawn with replacement, impacts perturbed by 15 %.
    With --out the table is written as Markdown beside the JSON file.

    [bold]Examples[/bold]

    sparta bench serve index/ --queries captions.txt --writes 50

    sparta bench serve index/ --queries captions.txt --engine lucene,columns --workers 1,2
    --images 113287 --out serve.json
    """
    import signal

    from rich.console import Console

    from eval.bench.collections import enlarge_index
    from eval.bench.corpus import read_queries
    from eval.bench.load import find_wrk
    from eval.bench.serve import ServeSetting, measure_serving
    from eval.report import head_of, index_models, report
    from sparta.progress import progress_bars

    check_out(out)
    texts = read_queries(queries)
    if len(texts) < 2:
        raise InputError(f"{queries} has {len(texts)} queries: give at least two")
    numbers = parse_numbers(connections, "--connections")
    processes = parse_numbers(workers, "--workers")
    settings = [ServeSetting(name.strip(), n) for name in engine.split(",") for n in processes]
    find_wrk()
    # SIGTERM ends the command as Ctrl+C does, so that the server it started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        progress_bars(SERVE_STAGES, Console(stderr=True)) as progress,
        TemporaryDirectory() as folder,
    ):
        served = index
        if images:
            served = Path(folder) / "index"
            enlarge_index(index, served, images, progress)
        found = measure_serving(served, texts, settings, numbers, seconds, k, writes, progress)
    drawn = bool(images or writes)  # of the images of the index, with seed 0
    head = head_of(context, index_models(index), 0 if drawn else None)
    report(found, head, out, as_json, markdown=True)
    if found.failed:
        raise InputError(f"{found.failed} requests failed: the figures are not valid")

"""`sparta bench soak`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out
from sparta.errors import InputError

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Minutes = Annotated[float, typer.Option(min=0.1, help="Of load.")]
Clients = Annotated[int, typer.Option(min=1, help="Clients that search at once.")]
Pause = Annotated[
    float, typer.Option(min=0, help="Mean seconds a client waits before its next search.")
]
Workers = Annotated[int, typer.Option(min=2, help="Processes of the server.")]
Writers = Annotated[
    int, typer.Option(min=0, help="Clients that write at once; the index is then not rebuilt.")
]
ImageCount = Annotated[
    int | None, typer.Option(min=1, help="Images to serve (default: as many as the index has).")
]
Picture = Annotated[
    Path | None,
    typer.Option(
        help="PNG file to write: latency and memory over time; the numbers are written beside it, "
        "as .json."
    ),
]

STAGES = {"prepare": ("Preparing", "steps"), "soak": ("Soak", "s")}


def soak(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    minutes: Minutes = 60,
    clients: Clients = 32,
    writers: Writers = 0,
    workers: Workers = 2,
    images: ImageCount = None,
    k: Hits = 10,
    pause: Pause = 0,
    as_json: AsJson = False,
    out: Out = None,
    figure: Picture = None,
) -> None:
    """Search for an hour while the index is rebuilt, workers die and clients hang up.

    Serves a temporary index, made of the images of INDEX, from a process of its own. Clients search
    through REST and repeat what fails as sparta.Client does. Meanwhile a worker is killed every
    minute, the index is replaced by another edition again and again, and four more clients hang up
    before they are answered. Every answer is compared with a plain matrix product of all impacts.

    With --writers, these add, replace, change and delete images of their own instead, also in
    batches; the process that writes is killed too, and a snapshot is taken and verified every
    minute. An answer must then have the images that nobody writes in their order, and of the others
    the states that its time allows, none missing. A snapshot must hold such states too, and the
    index that is left what was acknowledged.

    Reports wrong answers, requests that no retry healed, the slope of the memory of all processes
    with its 95 % confidence interval, and latencies over time. Linux only.

    [bold]Examples[/bold]

    sparta bench soak index/ --queries captions.txt

    sparta bench soak index/ --queries captions.txt --minutes 5 --images 113287 --figure soak.png

    sparta bench soak index/ --queries captions.txt --writers 4
    """
    import signal

    from rich.console import Console

    from eval.bench.query_latency.collections.queries import read_queries
    from eval.bench.soak.measure import soak as run_soak
    from eval.bench.soak.plan import SoakPlan
    from eval.report import report
    from indexer.manifest import Manifest
    from sparta.progress import progress_bars

    check_out(out)
    if figure is not None:
        from eval.plotting import check_picture

        check_picture(figure, "--figure")
    texts = read_queries(queries)
    plan = SoakPlan(
        minutes,
        clients,
        workers,
        images or Manifest.open(index).images,
        k,
        pause,
        writers=writers,
    )
    # SIGTERM ends the command as Ctrl+C does, so that the server it started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = run_soak(index, texts, plan, progress)
    report(found, context.params, out, as_json)
    if figure is not None:
        from eval.bench.soak.figure import draw
        from eval.plotting import save

        save(draw(found), found.record(), figure, context.params)
    if found.failed:
        raise InputError(f"the server failed {found.failed} times; see above")

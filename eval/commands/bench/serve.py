"""`sparta bench serve`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out, parse_numbers
from sparta.errors import InputError

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Connections = Annotated[str, typer.Option(help="Numbers of connections.")]
Seconds = Annotated[int, typer.Option(min=1, help="For each number of connections.")]
EngineNames = Annotated[
    str,
    typer.Option(
        "--engine", help="Engines to serve with, as in sparta serve --engine; bare: see below."
    ),
]
Workers = Annotated[str, typer.Option(help="Numbers of worker processes to serve with.")]
ImageCount = Annotated[
    int | None,
    typer.Option(min=1, help="Images of an enlarged index (default: the index as it is)."),
]

STAGES = {"write": ("Enlarging", "images"), "load": ("Load", "loads")}


def serve(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    connections: Connections = "1,8,32",
    seconds: Seconds = 10,
    engine: EngineNames = "auto",
    workers: Workers = "1",
    images: ImageCount = None,
    k: Hits = 10,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Put the REST interface under load: requests a second, and their latencies.

    Starts sparta serve for each engine and number of workers, warms it up, and lets wrk send
    GET /v1/search over each number of connections; wrk's own share of the cores is in the JSON.
    The engine "bare" is one process with a FastAPI route that returns a constant as large as the
    answers of the engine before it: what no search over HTTP can outdo.
    --images builds a temporary index: images drawn with replacement, impacts perturbed by 15 %.

    Then a single request is timed in parts: tokenising, searching, building the answer, writing
    JSON, the framework, and the socket.

    [bold]Examples[/bold]

    sparta bench serve index/ --queries captions.txt

    sparta bench serve index/ --queries captions.txt --engine lucene,columns --workers 1,2
    --images 113287 --out serve.json
    """
    import signal
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from eval.bench.query_latency.collections.queries import read_queries
    from eval.bench.serving.enlarged_index import enlarge_index
    from eval.bench.serving.measure import measure_serving, serve_settings
    from eval.bench.serving.wrk import find_wrk
    from eval.report import report
    from sparta.progress import progress_bars

    check_out(out)
    texts = read_queries(queries)
    if len(texts) < 2:
        raise InputError(f"{queries} has {len(texts)} queries: give at least two")
    numbers = parse_numbers(connections, "--connections")
    settings = serve_settings(engine, parse_numbers(workers, "--workers"))
    find_wrk()
    # SIGTERM ends the command as Ctrl+C does, so that the server it started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_bars(STAGES, Console(stderr=True)) as progress, TemporaryDirectory() as folder:
        served = index
        if images:
            served = Path(folder) / "index"
            enlarge_index(index, served, images, progress)
        found = measure_serving(served, texts, settings, numbers, seconds, k, progress)
    report(found, context.params, out, as_json)
    if found.failed:
        raise InputError(f"{found.failed} requests failed: the figures are not valid")

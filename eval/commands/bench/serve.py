"""`sparta bench serve`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import check_out
from sparta.errors import InputError


def serve(
    context: typer.Context,
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    queries: Annotated[Path, typer.Option(help="Text file, one query a line.")],
    connections: Annotated[str, typer.Option(help="Numbers of connections.")] = "1,8,32",
    seconds: Annotated[int, typer.Option(min=1, help="For each number of connections.")] = 10,
    engine: Annotated[
        str, typer.Option(help="Engines to serve with, as in sparta serve --engine.")
    ] = "auto",
    workers: Annotated[str, typer.Option(help="Numbers of worker processes to serve with.")] = "1",
    images: Annotated[
        int | None,
        typer.Option(min=1, help="Serve so many, made of the index's (default: as it is)."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Images of an answer.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Put the REST interface under load: requests a second, and how long they take.

    Starts sparta serve on this machine alone, once for each engine and number of workers, warms
    it up, and lets the load generator wrk ask GET /v1/search from so many connections at once.
    Each connection sends its next request when the answer to the last one is there. The load
    generator runs on the same cores; the JSON says how much of them it takes. A request that
    fails fails the whole.

    --images makes an index of any size for the time being: images drawn with replacement, every
    weight perturbed by 15 %.

    Beside that, one request alone is taken apart: tokenising, searching, building the answer,
    writing it as JSON, the framework, and the socket.

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
    from eval.bench.serving.measure import ServeSetting, measure_serving
    from eval.bench.serving.wrk import find_wrk
    from eval.commands.figures.options import parse_numbers
    from eval.report import report
    from sparta.progress import progress_bars

    check_out(out)
    texts = read_queries(queries)
    if len(texts) < 2:
        raise InputError(f"{queries} has {len(texts)} queries: give at least two")
    numbers = parse_numbers(connections, "--connections")
    settings = [
        ServeSetting(name.strip(), count)
        for name in engine.split(",")
        for count in parse_numbers(workers, "--workers")
    ]
    find_wrk()
    # Told to stop in either way, the server that was started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stages = {"write": ("Enlarging", "images"), "load": ("Asking", "loads")}
    with progress_bars(stages, Console(stderr=True)) as show, TemporaryDirectory() as folder:
        served = index
        if images:
            served = Path(folder) / "index"
            enlarge_index(index, served, images, lambda *steps: show("write", *steps))
        found = measure_serving(
            served, texts, settings, numbers, seconds, k, lambda *steps: show("load", *steps)
        )
    report(found, context.params, out, as_json)
    if found.failed:
        raise InputError(f"{found.failed} requests failed: these figures do not count")

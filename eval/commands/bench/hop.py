"""`sparta bench hop`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Hits, IndexFolder, Out, check_out, parse_numbers
from sparta.errors import InputError

Queries = Annotated[Path, typer.Option(help="Text file, one query a line.")]
Shards = Annotated[int, typer.Option(min=1, help="To divide the index into.")]
Connections = Annotated[str, typer.Option(help="Numbers of connections.")]
Seconds = Annotated[int, typer.Option(min=1, help="For each number of connections.")]

STAGES = {"divide": ("Dividing into shards", "images"), "load": ("Load", "loads")}


def hop(
    context: typer.Context,
    index: IndexFolder,
    queries: Queries,
    shards: Shards = 2,
    connections: Connections = "1,4",
    seconds: Seconds = 10,
    k: Hits = 10,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what it costs a search to ask shards: in one process, and on a Ray cluster.

    Divides INDEX in a temporary folder. sparta serve of the index, of its shards, and of its
    shards with --ray local are loaded by wrk in turn, in the same way.

    [bold]Example[/bold]

    sparta bench hop index/ --queries captions.txt --shards 2
    """
    import signal

    from rich.console import Console

    from eval.bench.query_latency.collections.queries import read_queries
    from eval.bench.serving.hop import measure_hop
    from eval.bench.serving.wrk import find_wrk
    from eval.report import report
    from sparta.progress import progress_bars

    check_out(out)
    texts, numbers = read_queries(queries), parse_numbers(connections, "--connections")
    find_wrk()
    # SIGTERM ends the command as Ctrl+C does, so that the server it started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_hop(index, texts, shards, numbers, seconds, k, progress)
    report(found, context.params, out, as_json)
    if found.failed:
        raise InputError(f"{found.failed} requests failed: the figures are not valid")

"""The command `sparta serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from server.backends import Backends

Index = Annotated[Path, typer.Argument(help="Index folder", show_default=False)]
Photos = Annotated[
    Path | None,
    typer.Option(
        help="Photos folder; by default the one that was indexed", exists=True, file_okay=False
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on, 0 for any free one")]
Workers = Annotated[int, typer.Option(min=1, help="Number of processes, each with its own memory")]
Engine = Annotated[
    str,
    typer.Option(
        help="Engine of the inverted index: lucene; columns, which are built if missing; or auto: "
        "columns if the index has them"
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        help="Name under which the server is reached, as through a proxy, besides --host; "
        "repeatable. Requests for other names are refused",
    ),
]
Examples = Annotated[
    list[str] | None,
    typer.Option("--example", help="Example query shown on the page; repeatable"),
]


def serve(
    index: Index,
    photos: Photos = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    engine: Engine = "auto",
    allowed_host: AllowedHosts = None,
    example: Examples = None,
) -> None:
    """Serve an index: the search page and the REST interface.

    The dense models of the index are backends of their own. For many requests at once, use as many
    --workers as there are cores.

    Example: sparta serve demo/index

    Example: sparta serve demo/index --photos ~/Pictures --port 8080
    """
    from functools import partial

    from rich.console import Console

    from server.app import create_app
    from server.backends import open_backends
    from server.processes import run, run_workers
    from server.security.hosts import Hosts
    from server.sockets import is_loopback, listen, url

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    open_all = partial(open_backends, index, photos, example or [], engine)
    hosts = Hosts(host, allowed_host or [])
    backends = open_all()
    with listen(host, port) as socket:
        _announce(console, backends, index, url(host, socket.getsockname()[1]))
        if not is_loopback(host):
            console.print(
                f"[yellow]Warning: with --host {host} everybody who reaches this machine can "
                "search and see the photos; there is no password.[/]"
            )
        console.print("Stop with Ctrl+C.")
        if workers == 1:
            run(create_app(backends, hosts), socket)
        else:
            backends.close()
            run_workers(workers, open_all, socket, hosts)


def _announce(console: Console, backends: Backends, index: Path, address: str) -> None:
    """Print what is served, and where."""
    count = len(backends.default.searcher)
    console.print(f"Serving [bold]{count:,}[/] images of {index} at [bold]{address}[/]")
    console.print(f"Open it in a browser; the REST interface is documented at {address}/docs")
    if len(names := [backend.name for backend in backends]) > 1:
        console.print(
            f"Backends: {', '.join(names)}. Dense models are loaded at their first query."
        )
    if backends.default.photos is None:
        console.print(
            "[yellow]There is no photos folder: search works, but photos cannot be shown. Give it "
            "with --photos DIR.[/]"
        )

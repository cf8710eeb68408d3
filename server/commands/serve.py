"""The `serve` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    index: Annotated[
        Path, typer.Argument(help="Index folder made by sparta index", show_default=False)
    ],
    photos: Annotated[
        Path | None,
        typer.Option(
            help="Folder the photos are in now, if not where they were indexed",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on, 0 for any free one")
    ] = 8000,
    workers: Annotated[
        int,
        typer.Option(min=1, help="Processes that answer side by side, each on a core of its own"),
    ] = 1,
    engine: Annotated[
        str,
        typer.Option(
            help="What sums the impacts: columns, which are made if missing, lucene, or auto: "
            "columns if the index has them"
        ),
    ] = "auto",
    example: Annotated[
        list[str] | None,
        typer.Option(help="Query the page proposes; give it several times for several"),
    ] = None,
) -> None:
    """Serve an index: a page to search on, and the REST interface behind it.

    Dense models that sparta index --dense has added answer as backends of their own. For many
    requests at once, give as many --workers as there are cores; each takes its own memory.

    Example: sparta serve demo/index

    Example: sparta serve demo/index --photos ~/Pictures --port 8080
    """
    from functools import partial

    from rich.console import Console

    from server.app import create_app
    from server.backends import open_backends
    from server.processes import run, run_workers
    from server.sockets import is_loopback, listen, url

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    open_them = partial(open_backends, index, photos, example or [], engine)
    backends = open_them()
    with listen(host, port) as socket:
        address = url(host, socket.getsockname()[1])
        count = len(backends.default.searcher)
        console.print(f"Serving [bold]{count:,}[/] images of {index} at [bold]{address}[/]")
        console.print(f"Open it in a browser. The REST interface is described at {address}/docs")
        if len(names := [backend.name for backend in backends]) > 1:
            console.print(
                f"Backends: {', '.join(names)}. Dense models are loaded at their first query."
            )
        if backends.default.photos is None:
            console.print(
                "[yellow]The photos folder is not known or gone: searching works, but no photo "
                "will be shown. Give it with --photos DIR.[/]"
            )
        if not is_loopback(host):
            console.print(
                f"[yellow]Warning: with --host {host} everybody who reaches this machine can "
                "search and see the photos; there is no password.[/]"
            )
        console.print("Stop with Ctrl+C.")
        if workers == 1:
            run(create_app(backends), socket)
        else:
            backends.close()
            run_workers(workers, open_them, socket)

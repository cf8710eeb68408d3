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
    example: Annotated[
        list[str] | None,
        typer.Option(help="Query the page proposes; give it several times for several"),
    ] = None,
) -> None:
    """Serve an index: a page to search on, and the REST interface behind it.

    Dense models that sparta index --dense has added answer as backends of their own.

    Example: sparta serve demo/index

    Example: sparta serve demo/index --photos ~/Pictures --port 8080
    """
    from contextlib import suppress

    import uvicorn
    from rich.console import Console

    from server.app import create_app
    from server.backends import open_backends
    from server.listen import is_loopback, listen, url

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    backends = open_backends(index, photos, example or [])
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
        config = uvicorn.Config(create_app(backends), log_level="warning")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[socket])

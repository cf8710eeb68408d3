"""The command `sparta mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

Source = Annotated[
    str,
    typer.Argument(
        metavar="INDEX|URL", help="Index folder, or address of a running server", show_default=False
    ),
]
Photos = Annotated[
    Path | None,
    typer.Option(
        help="Photos folder; by default the one that was indexed", exists=True, file_okay=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Serve streamable HTTP on this port of 127.0.0.1, 0 for any free one, instead of "
        "standard input and output",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="SPARTA_API_KEY",
        help="API key of the running server; other users of this machine see options, but not the "
        "environment",
    ),
]
Write = Annotated[
    bool,
    typer.Option(
        "--write",
        help="Offer the tools add and delete, too; for a running server, with a key of scope write",
    ),
]


def mcp(
    source: Source,
    photos: Photos = None,
    port: Port = None,
    api_key: Key = None,
    write: Write = False,
) -> None:
    """Offer the search to language models: a Model Context Protocol server.

    Its tools are search, similar, explain and image. Without --port it talks over standard input
    and output, to the program that has started it.

    Example: sparta mcp demo/index

    Example: sparta mcp http://127.0.0.1:8000 --port 8001

    Example: SPARTA_API_KEY=… sparta mcp http://127.0.0.1:8000 --write
    """
    import anyio

    from server.mcp import serve_http
    from server.security.listening import listen
    from server.settings import url

    server = _server(source, photos, api_key, write)
    if port is None:
        anyio.run(server.run_stdio_async)
        return
    with listen("127.0.0.1", port) as socket:
        address = url("127.0.0.1", socket.getsockname()[1])
        typer.echo(f"Model Context Protocol at {address}/mcp. Stop with Ctrl+C.", err=True)
        serve_http(server, socket)


def _server(source: str, photos: Path | None, api_key: str | None, write: bool) -> MCPServer:
    from functools import partial

    from server.client.client import AsyncClient
    from server.mcp import application_client, mcp_server
    from sparta.errors import InputError

    if source.startswith(("http://", "https://")):
        if photos is not None:
            raise InputError("--photos is for an index folder; a running server has its own")
        return mcp_server(AsyncClient(source, api_key=api_key), write=write)
    if write:
        raise InputError("--write needs a running server: start sparta serve and give its address")
    from server.app import create_app
    from server.backends import open_backends
    from server.settings import ServerSettings

    settings = ServerSettings(index=Path(source), photos=photos)
    open_all = partial(open_backends, settings)
    backends = open_all()
    backends.warm_up_first()
    app = create_app(backends, settings, reopen=open_all)
    return mcp_server(application_client(app), app)

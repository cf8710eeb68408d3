"""The Model Context Protocol server: over an index opened here, or over a running server."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import httpx
from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer

from server.client.client import AsyncClient
from server.mcp.tools import Tools
from server.processes import run
from server.security.access import in_process

INSTRUCTIONS = (
    "Finds photos of one collection by what they show. Search with plain words for things, people, "
    "colours, actions and places that can be seen; names of persons, dates and file names are not "
    "searched: dates, cameras, places and folders are conditions of a filter. A hit matches words "
    "of the query, which need not be its meaning: look at it with the tool image before you "
    "describe it."
)
IN_PROCESS = "http://127.0.0.1"  # the address by which requests to an application go; never opened


def application_client(app: FastAPI) -> AsyncClient:
    """A client whose requests an application answers in this process, without a socket."""
    return AsyncClient(
        IN_PROCESS, transport=httpx.ASGITransport(in_process(app), raise_app_exceptions=False)
    )


def mcp_server(client: AsyncClient, app: FastAPI | None = None, write: bool = False) -> MCPServer:
    """A server with the tools.

    Args:
        client: of the server that is searched; closed at the end.
        app: the application that the client asks, started and shut down with the server; None for
            a client of a server elsewhere.
        write: whether tools that change the collection are offered.
    """

    @asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncIterator[None]:
        async with client:
            if app is None:
                yield
            else:
                async with app.router.lifespan_context(app):
                    yield

    server = MCPServer(
        "visualsparta",
        title="VisualSparta photo search",
        instructions=INSTRUCTIONS,
        version=version("visualsparta"),
        lifespan=lifespan,
        log_level="WARNING",
    )
    Tools(client, write).add_to(server)
    return server


def serve_http(server: MCPServer, listening: socket.socket) -> None:
    """Serve streamable HTTP at the path /mcp of a listening socket of the loopback.

    Each request is answered by itself and with JSON, so that clients need no session. Requests
    whose Host or Origin is not the loopback's are refused: a web page could send them.
    """
    run(server.streamable_http_app(json_response=True, stateless_http=True), listening)

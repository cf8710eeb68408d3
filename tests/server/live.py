"""A real server on a free port, and requests with targets exactly as given."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from server.backends import Backend
from server.connections import LimitedProtocol
from server.processes import _Server
from server.security.listening import listen, url
from tests.server.apps import app_of


@contextmanager
def serving(
    *backends: Backend, certificate: tuple[Path, Path] | None = None, **values: Any
) -> Iterator[str]:
    """Run a server with some settings in a thread; yields its address.

    Args:
        backends: to search.
        certificate: files of a certificate and its key, to serve HTTPS.
        values: of the settings.
    """
    with listen("127.0.0.1", 0) as socket:
        app = app_of(*backends, **values)
        chain, key = certificate or (None, None)
        config = uvicorn.Config(
            app,
            http=LimitedProtocol,
            ws="none",
            log_level="error",
            proxy_headers=False,
            ssl_certfile=chain,
            ssl_keyfile=key,
        )
        server = _Server(config, app, drain=0)
        thread = Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        try:
            scheme = "https" if certificate else "http"
            yield url("127.0.0.1", socket.getsockname()[1], scheme)
        finally:
            server.should_exit = True
            thread.join()


def raw_get(address: str, target: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a target sent byte for byte as given."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()
    finally:
        connection.close()

"""A host of static files as those that people publish on: HTTP/2, texts compressed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, cast

import trustme
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles


@contextmanager
def hosting_http2(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine; yields its address.

    Browsers speak HTTP/2 over TLS alone: the certificate is of an authority that nobody knows.

    Args:
        folder: of the files.
    """
    app = Starlette(
        routes=[Mount("/", StaticFiles(directory=folder, html=True))],
        middleware=[Middleware(GZipMiddleware, compresslevel=6)],
    )
    loop, over = asyncio.new_event_loop(), asyncio.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    with TemporaryDirectory() as keys:
        config = _config(Path(keys), listening.detach())  # which closes it
        serving = serve(cast(Any, app), config, shutdown_trigger=over.wait)
        thread = Thread(target=loop.run_until_complete, args=(serving,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{port}"
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
            loop.close()


def _config(keys: Path, listening: int) -> Config:
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(keys / "key.pem")
    for number, part in enumerate(certificate.cert_chain_pems):
        part.write_to_path(keys / "chain.pem", append=number > 0)
    config = Config()
    config.bind = [f"fd://{listening}"]
    config.certfile, config.keyfile = str(keys / "chain.pem"), str(keys / "key.pem")
    config.alpn_protocols = ["h2"]
    config.errorlog = config.accesslog = None
    return config

"""Applications with settings for tests, here or on a free port; clients, keys, certificates."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import trustme
import uvicorn
from anyio.from_thread import start_blocking_portal
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from fastapi import FastAPI
from fastapi.testclient import TestClient

from server.app import create_app
from server.backends import Backend, Backends
from server.client.client import AsyncClient, Client
from server.connections import LimitedProtocol
from server.processes import _Server
from server.security.keys import Scope, new_key, read_keys, write_keys
from server.security.listening import listen
from server.settings import ServerSettings, url

AUTHORITY = trustme.CA()


def settings(**values: Any) -> ServerSettings:
    """Settings of a server on this machine."""
    return ServerSettings.model_validate({"index": Path("index")} | values)


def app_of(*backends: Backend, **values: Any) -> FastAPI:
    """An application that searches some backends."""
    return create_app(Backends(backends), settings(**values))


def client_of(app: FastAPI, *, address: str = "127.0.0.1", **options: Any) -> TestClient:
    """A client on this machine, or at another address."""
    return TestClient(app, base_url="http://localhost", client=(address, 50_000), **options)


def make_key(file: Path, scope: Scope = "search", expires: datetime | None = None) -> str:
    """Add a key to a file, and return its text."""
    key, text = new_key(f"{scope} key", scope, expires)
    write_keys(file, [*(read_keys(file) if file.exists() else []), key])
    return text


def serving(
    *backends: Backend,
    certificate: tuple[Path, Path] | None = None,
    host: str = "127.0.0.1",
    **values: Any,
) -> AbstractContextManager[str]:
    """As `running`, of an application that searches some backends."""
    chosen = settings(host=host, **values)
    return running(create_app(Backends(backends), chosen), certificate, chosen)


@contextmanager
def running(
    app: FastAPI,
    certificate: tuple[Path, Path] | None = None,
    chosen: ServerSettings | None = None,
) -> Iterator[str]:
    """Run a server in a thread; yields its address.

    Args:
        app: the application.
        certificate: files of a certificate and its key, to serve HTTPS.
        chosen: settings that say where it listens, and which proxies are trusted.
    """
    chosen = chosen or settings()
    with listen(chosen.host, 0) as socket:
        chain, key = certificate or (None, None)
        config = uvicorn.Config(
            app,
            http=LimitedProtocol,
            loop="asyncio",
            ws="none",
            log_level="error",
            proxy_headers=False,
            ssl_certfile=chain,
            ssl_keyfile=key,
        )
        server = _Server(config, app, 0, chosen.trusts)
        port = socket.getsockname()[1]  # the server takes the socket over
        thread = Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        try:
            scheme = "https" if certificate else "http"
            yield url(chosen.host, port, scheme)
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


def make_certificate(folder: Path, password: str = "") -> tuple[Path, Path]:
    """Files of a certificate for localhost, signed by `AUTHORITY`, and of its key."""
    issued = AUTHORITY.issue_cert("localhost")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    secret = issued.private_key_pem.bytes()
    if password:
        secret = load_pem_private_key(secret, None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
        )
    key.write_bytes(secret)
    return certificate, key


class Blocking:
    """An `AsyncClient` whose methods wait for their answers, as those of `Client` do."""

    def __init__(self, client: AsyncClient, call: Callable[..., Any]) -> None:
        self._client, self._call = client, call

    def __getattr__(self, name: str) -> Any:
        async def answer(arguments: Any, options: Any) -> Any:
            return await getattr(self._client, name)(*arguments, **options)

        return lambda *arguments, **options: self._call(answer, arguments, options)


@contextmanager
def connected(kind: str, servers: str | Sequence[str], **options: Any) -> Iterator[Any]:
    """A client of a kind, "Client" or "AsyncClient", used as if it were a `Client`."""
    if kind == "Client":
        with Client(servers, **options) as client:
            yield client
        return
    with start_blocking_portal() as portal:
        client_ = AsyncClient(servers, **options)
        with portal.wrap_async_context_manager(client_):
            yield Blocking(client_, portal.call)

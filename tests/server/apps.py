"""The application with settings for tests."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from server.app import create_app
from server.backends import Backend, Backends
from server.security.keys import Scope, new_key, read_keys, write_keys
from server.settings import ServerSettings


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

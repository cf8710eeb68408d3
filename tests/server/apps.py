"""The application with settings for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI

from server.app import create_app
from server.backends import Backend, Backends
from server.settings import ServerSettings


def settings(**values: Any) -> ServerSettings:
    """Settings that answer the test client, whose host is "testserver"."""
    usual = {"index": Path("index"), "allowed_hosts": ("testserver",)}
    return ServerSettings.model_validate(usual | values)


def app_of(*backends: Backend, **values: Any) -> FastAPI:
    """An application that searches some backends."""
    return create_app(Backends(backends), settings(**values))

"""The application: REST interface, page, error handlers and headers put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import Receive, Scope, Send

from server import problems, schemas
from server.backends import Backends
from server.changeover.leases import Current
from server.changeover.middleware import OneIndex
from server.changeover.watch import IndexWatch
from server.monitoring import middleware as monitoring
from server.monitoring.metrics import Metrics
from server.monitoring.monitor import measure, open_monitor
from server.routes import collection, health, images, keys, search, session, thumbnails, writes
from server.routes.plain import COMPRESSION, LEAST_COMPRESSED, PlainSearch
from server.security import install as security
from server.security.openapi import describe
from server.security.rate_limit import Buckets
from server.settings import ServerSettings
from server.thumbnails import Thumbnails
from server.work import Work
from server.writing.forward import Forwarder

# An image id may be anything, so the path of an image matches those before it, too.
ROUTERS = (
    search.router,
    collection.router,
    writes.many,
    thumbnails.router,
    images.router,
    writes.one,
    session.router,
    keys.router,
    health.router,
)
# FastAPI's own, which newer versions have: `server.monitoring` records every request.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False}
PAGE = Path(__file__).parent / "page"
# Photos are compressed already.
NOT_COMPRESSED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "image/*", "application/octet-stream")


class _Application(FastAPI):
    """An application with a plain handler before all its layers."""

    plain: PlainSearch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["app"] = self
        await self.plain(scope, receive, send)

    async def layered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As `FastAPI`."""
        await super().__call__(scope, receive, send)


def create_app(
    backends: Backends,
    settings: ServerSettings,
    metrics: Metrics | None = None,
    reopen: Callable[[], Backends] | None = None,
    buckets: Buckets | None = None,
    forwarder: Forwarder | None = None,
) -> FastAPI:
    """An application that searches the backends and closes them at shutdown.

    Args:
        backends: to search.
        settings: of the server; what opened the backends is not read again.
        metrics: of the process; None for new ones.
        reopen: opens the backends again when the index has been rebuilt; None if it is not watched.
        buckets: of the rate limit, where several workers share them; None for new ones.
        forwarder: passes on what changes the index; None where nothing does.

    Raises:
        OSError: if a log cannot be opened.
    """
    metrics = metrics or Metrics()
    work = Work(metrics)
    monitor = open_monitor(settings, metrics)
    current = Current(backends)
    forwarder = forwarder or Forwarder()
    watch = _watch(settings, current, metrics, reopen, forwarder) if reopen else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        figures = measure(metrics, lambda: current.resource, forwarder.counts)
        measuring = asyncio.create_task(figures)
        if watch:
            watch.start()
        yield
        measuring.cancel()
        if watch:
            watch.stop()
        await forwarder.close()
        work.close()
        monitor.close()
        current.close()

    app = _Application(
        title="VisualSparta",
        version=version("visualsparta"),
        summary="Text-to-image search on an inverted index, with an explanation of every hit",
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        telemetry=NO_TELEMETRY,
    )
    app.state.work, app.state.metrics, app.state.forwarder = work, metrics, forwarder
    app.state.monitor = monitor
    app.state.thumbnails, app.state.current = Thumbnails(), current
    app.state.stopping = False
    # The last one added is the first to see a request.
    app.add_middleware(OneIndex, current=current)
    app.add_middleware(problems.PlainErrors)
    app.add_middleware(
        GZipMiddleware,
        minimum_size=LEAST_COMPRESSED,
        compresslevel=COMPRESSION,
        exclude_content_types=NOT_COMPRESSED,
    )
    guards = security.install(app, settings, buckets or Buckets())
    app.add_middleware(monitoring.Monitoring, monitor=monitor)
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.add_api_route("/", _index, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/page", StaticFiles(directory=PAGE))
    app.plain = PlainSearch(app.layered, current, guards, monitor)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _operation_id(route: APIRoute) -> str:
    """The endpoint's function names its operation, from which generated clients name theirs."""
    return route.name


def _watch(
    settings: ServerSettings,
    current: Current[Backends],
    metrics: Metrics,
    reopen: Callable[[], Backends],
    forwarder: Forwarder,
) -> IndexWatch[Backends]:
    def open_as_before() -> Backends:
        found = reopen()
        try:
            found.warm_up()  # before a request uses it
            found.load_as(current.resource)
        except BaseException:
            found.close()  # Java would keep its files
            raise
        return found

    return IndexWatch(
        settings.index, open_as_before, current, metrics.index_change, *forwarder.place
    )


async def _index() -> FileResponse:
    return FileResponse(PAGE / "index.html")


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's OpenAPI description, with our error schema in place of FastAPI's default."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes
        )
        parts = schema["components"]["schemas"]
        parts |= writes.body_schemas()
        parts["Problem"] = schemas.Problem.model_json_schema()
        for default in ("HTTPValidationError", "ValidationError"):
            parts.pop(default, None)
        for operations in schema["paths"].values():
            for operation in operations.values():
                if "HTTPValidationError" in str(operation["responses"].get("422")):
                    del operation["responses"]["422"]
        monitoring.describe(schema)  # before what is refused without asking the index
        describe(schema)
        app.openapi_schema = schema
    return app.openapi_schema

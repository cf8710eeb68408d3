"""The application: REST interface, page, error handlers and headers put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES

from server import problems, schemas
from server.backends import Backends, Current, OneIndex
from server.monitoring.metrics import Metrics
from server.monitoring.monitor import INDEX_VERSION, Monitor, Monitoring, open_monitor
from server.photo_files import Thumbnails
from server.routes import about, images, search, writes
from server.routes.common import Work
from server.routes.plain import COMPRESSION, LEAST_COMPRESSED, Application, Compression
from server.security import guards as security
from server.security.access import Buckets
from server.settings import ServerSettings
from server.watch import IndexWatch
from server.writing.forward import Forwarder
from sparta.json_values import Json

# An image id may be anything, so the path of an image matches those before it, too.
ROUTERS: tuple[APIRouter, ...] = (
    search.router,
    about.router,
    writes.many,
    images.router,
    writes.one,
)
MEASURED = 5.0  # seconds between two looks at the memory
PAGE, REFERENCE = (Path(__file__).parent / name for name in ("page", "reference"))
VERSION_HEADER = {
    "description": "Version of the index that gave the answer: answers of two may differ",
    "schema": {"type": "string", "examples": ["0f3a52b1c9de"]},
}
# Photos are compressed already.
NOT_COMPRESSED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "image/*", "application/octet-stream")


class _Described(Application):
    def openapi(self) -> Json:
        """FastAPI's OpenAPI description, with our error schema in place of FastAPI's default."""
        if self.openapi_schema is None:
            schema = get_openapi(
                title=self.title, version=self.version, summary=self.summary, routes=self.routes
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
                    # Before what is refused without asking the index.
                    for response in operation["responses"].values():
                        response.setdefault("headers", {})[INDEX_VERSION] = VERSION_HEADER
            security.describe(schema)
            self.openapi_schema = schema
        return self.openapi_schema


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
        measuring = asyncio.create_task(_measure(metrics, current, forwarder))
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

    app = _Described(
        title="VisualSparta",
        version=version("visualsparta"),
        summary="Text-to-image search on an inverted index, with an explanation of every hit",
        lifespan=lifespan,
        docs_url=None,  # whose page loads its scripts from another host
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=attrgetter("name"),  # generated clients name theirs so
        # FastAPI's own, which newer versions have: `server.monitoring` records every request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.work, app.state.metrics, app.state.forwarder = work, metrics, forwarder
    app.state.monitor, app.state.current = monitor, current
    app.state.thumbnails, app.state.stopping = Thumbnails(), False
    _install(app, settings, current, monitor, buckets or Buckets())
    return app


def _install(
    app: Application, settings: ServerSettings, current: Current, monitor: Monitor, buckets: Buckets
) -> None:
    """Add what answers errors, the middleware, and the routes."""
    problems.install(app, settings.index)
    # The last one added is the first to see a request.
    app.add_middleware(OneIndex, current=current)
    app.add_middleware(problems.PlainErrors)
    app.add_middleware(
        Compression,
        minimum_size=LEAST_COMPRESSED,
        compresslevel=COMPRESSION,
        exclude_content_types=NOT_COMPRESSED,
    )
    guards = security.install(app, settings, buckets)
    app.add_middleware(Monitoring, monitor=monitor)
    for router in ROUTERS:
        app.include_router(router)
    for first, path, folder in (("/", "/page", PAGE), ("/docs", "/docs", REFERENCE)):
        files = StaticFiles(directory=folder)
        app.add_api_route(first, partial(_index, files), include_in_schema=False)
        app.mount(path, files)
    app.answer_plainly(current, guards, monitor)


async def _index(files: StaticFiles, request: Request) -> Response:
    return await files.get_response("index.html", request.scope)


def _watch(
    settings: ServerSettings,
    current: Current,
    metrics: Metrics,
    reopen: Callable[[], Backends],
    forwarder: Forwarder,
) -> IndexWatch:
    def open_as_before() -> Backends:
        found = reopen()
        try:
            found.warm_up()  # before a request uses it
            found.load_as(current.backends)
        except BaseException:
            found.close()  # Java would keep its files
            raise
        return found

    return IndexWatch(
        settings.index, open_as_before, current, metrics.index_change, *forwarder.place
    )


async def _measure(metrics: Metrics, current: Current, forwarder: Forwarder) -> None:
    """Look at the memory, the index and what the writer did again and again."""
    while True:
        metrics.measure_memory()
        # No name here refers to an index, which would stay open until the next look.
        metrics.index(*await asyncio.to_thread(lambda: current.backends.figures))
        metrics.missing(await asyncio.to_thread(lambda: current.backends.missing()))
        if (counts := forwarder.counts) is not None:
            metrics.writer(counts)
        await asyncio.sleep(MEASURED)

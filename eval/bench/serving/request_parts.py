"""The parts of a request's time, from tokenising to the framework."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from statistics import median
from typing import Any
from urllib.parse import urlencode

import numpy as np
from fastapi import FastAPI, Request

from server.app import create_app
from server.backends import Backends
from server.changeover.leases import Lease, keep_lease
from server.monitoring.record import RequestRecord
from server.quick_answer import Asked, quick_answer
from server.routes.hit_texts import HitTexts
from server.routes.hits import paths_of_photos
from server.routes.parameters import SearchParameters
from server.routes.search import search_answer
from server.settings import ServerSettings

PARTS = ("tokenise", "search", "build", "serialise", "framework")


def time_parts(
    backends: Backends, settings: ServerSettings, queries: Sequence[str], k: int, key: str
) -> dict[str, float]:
    """Answer queries in this process, without a socket, one after the other.

    The first half warms up. For each of the others the whole application answers the request; its
    answer reports the times of tokenising and searching. Building the answer and writing it as JSON
    are then repeated and timed alone, and the rest is the framework's.

    Returns:
        medians in milliseconds: tokenise; search; build, from hits to the
        response model, or of a quick search to JSON; serialise, to JSON; framework,
        the rest of FastAPI and our middleware, including the switch to a thread
        where a search runs in one.
    """
    app = create_app(backends, settings)
    times = asyncio.run(_time_all(app, backends, queries, k, key))[len(queries) // 2 :]
    return {part: median(column) for part, column in zip(PARTS, np.transpose(times), strict=True)}


async def _time_all(
    app: FastAPI, backends: Backends, queries: Sequence[str], k: int, key: str
) -> list[list[float]]:
    scope = {"type": "http", "app": app}
    keep_lease(scope, Lease(backends))
    request = Request(scope)
    texts = HitTexts(paths_of_photos(backends.default, default=True))
    times = []
    for query in queries:
        start = time.perf_counter()
        body = await _request(app, urlencode({"q": query, "k": k}), key)
        whole = time.perf_counter() - start
        timings = json.loads(body)["timings"]
        build, serialise = _answer(request, backends, SearchParameters(q=query, k=k), texts)
        framework = 1000 * whole - timings["total_ms"] - build - serialise
        own = [timings["tokenise_ms"], timings["search_ms"]]
        times.append([*own, build, serialise, framework])
    return times


def _answer(
    request: Request, backends: Backends, asked: SearchParameters, texts: HitTexts
) -> tuple[float, float]:
    """Milliseconds of building an answer and of writing it, which for quick searches is one."""
    backend, searcher = backends.default, backends.default.numbering
    start = time.perf_counter()
    if searcher is not None:
        record = RequestRecord("", index=backends.version)
        body = quick_answer(backend, searcher, Asked(asked.q, asked.k), texts, record)
        whole = 1000 * (time.perf_counter() - start)
        return whole - float(json.loads(body)["timings"]["total_ms"]), 0.0
    made = search_answer(request, backend, asked)
    built = time.perf_counter()
    made.model_dump_json()
    written = time.perf_counter()
    return 1000 * (built - start) - made.timings.total_ms, 1000 * (written - built)


async def _request(app: FastAPI, parameters: str, key: str) -> bytes:
    """The response body of a search, called as an ASGI server calls the application."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/search",
        "raw_path": b"/v1/search",
        "root_path": "",
        "query_string": parameters.encode(),
        "headers": [(b"host", b"127.0.0.1"), (b"x-api-key", key.encode())],
        "client": ("127.0.0.1", 1),
    }
    sent: list[Any] = []
    received = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in received:
            return message
        return await asyncio.Future()  # this client never hangs up

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)

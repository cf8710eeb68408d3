"""`GET /v1/search` from bytes to bytes: host, key, limits, parameters, search, and the answer.

A search takes less time than the layers of the application around it, so this one route is called
without them. It decides what they decide, by the same functions.
"""

from __future__ import annotations

import zlib

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.backends import Backends
from server.changeover.leases import Current, keep_lease
from server.monitoring.middleware import headers_of
from server.monitoring.monitor import Monitor
from server.monitoring.record import RequestRecord, begin
from server.problems import KNOWN, answer_to
from server.routes.search import router, search
from server.security.install import Guards
from server.security.root_path import route_path
from server.security_headers import completed

PATH = "/v1/search"
LEAST_COMPRESSED = 1000  # bytes
COMPRESSION = 4  # of 9: half the time of the default for 5 % more bytes
_GZIP = 16 + zlib.MAX_WBITS
_ROUTE = next(route for route in router.routes if "GET" in getattr(route, "methods", ()))


class PlainSearch:
    """Middleware that answers searches by GET; all other requests pass to the application.

    Args:
        app: the application.
        current: the backends.
        guards: decide who may search.
        monitor: records what was answered.
    """

    def __init__(
        self, app: ASGIApp, current: Current[Backends], guards: Guards, monitor: Monitor
    ) -> None:
        self.app = app
        self._current, self._guards, self._monitor = current, guards, monitor
        self._root_path = guards.root_path
        self._handler = guards.surround(self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        own = scope["type"] == "http" and scope["method"] == "GET"
        if own and scope["path"].removeprefix(self._root_path) == PATH:
            await self._handler(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = begin(scope)
        scope["route"] = _ROUTE
        try:
            response = await self._response(Request(scope, receive), record)
            body, headers = _encoded(scope, response)
            record.status, record.bytes = response.status_code, len(body)
            headers = [*completed(scope, headers), *headers_of(record)]
            start = {"type": "http.response.start", "status": record.status, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": body})
        finally:
            # Without an answer it is an unexpected error, which is answered outside of this.
            record.status = record.status or 500
            self._monitor.finished(scope, record)

    async def _response(self, request: Request, record: RequestRecord) -> Response:
        scope = request.scope
        try:
            self._guards.hosts.check(scope)
            with self._guards.admission.admitted(scope, route_path(scope)):
                lease = self._current.take()
                keep_lease(scope, lease)
                record.index = lease.resource.version
                try:
                    return await search(request)
                finally:
                    lease.give_back()
        except KNOWN as error:
            return answer_to(request, error)


def _encoded(scope: Scope, response: Response) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The body and the headers of an answer, compressed if large and the client takes that."""
    body, headers = bytes(response.body), response.raw_headers
    if len(body) < LEAST_COMPRESSED:
        return body, headers
    headers = [*headers, (b"vary", b"Accept-Encoding")]
    accepted = [value for name, value in scope["headers"] if name == b"accept-encoding"]
    if not accepted or b"gzip" not in accepted[0]:  # as Starlette decides it
        return body, headers
    body = zlib.compress(body, COMPRESSION, _GZIP)
    kept = [header for header in headers if header[0] != b"content-length"]
    sizes = [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
    return body, [*kept, *sizes]

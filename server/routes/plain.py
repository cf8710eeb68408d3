"""`GET /v1/search` from bytes to bytes: host, key, limits, parameters, search, and the answer.

A search takes less time than the layers of the application around it, so this one route is called
without them. It decides what they decide, by the same functions.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

from fastapi import FastAPI, Request, Response
from starlette.datastructures import Headers as HeadersOf
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send

from server.backends import Current
from server.monitoring.monitor import Monitor, begin, headers_of
from server.problems import KNOWN, answer_to
from server.routes.search import router, searched
from server.security.access import route_path
from server.security.guards import Guards, Headers, completed, unexpected

PATH = "/v1/search"
LEAST_COMPRESSED = 1000  # bytes
COMPRESSION = 4  # of 9: half the time of the default for 5 % more bytes
_GZIP = 16 + zlib.MAX_WBITS
_VARY = (b"vary", b"Accept-Encoding")
_HEADERS = completed([(b"content-type", b"application/json")])
_ROUTE = next(route for route in router.routes if "GET" in getattr(route, "methods", ()))


class Application(FastAPI):
    """An application that answers searches by GET before all its layers."""

    def answer_plainly(self, current: Current, guards: Guards, monitor: Monitor) -> None:
        """Begin to do so, once all layers are there."""
        self._current, self._guards, self._monitor = current, guards, monitor
        self._plain = guards.surround(self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; HEAD as GET, whose body uvicorn does not send."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        own = scope["type"] == "http" and scope["method"] == "GET"
        # A server that stops has answered what it cancels.
        with suppress(asyncio.CancelledError):
            if own and scope["path"].removeprefix(self._guards.root_path) == PATH:
                scope["app"] = self
                await self._plain(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = begin(scope)
        scope["route"] = _ROUTE
        request = Request(scope, receive)
        try:
            try:
                answer: bytes | Response = await self._searched(request)
            except KNOWN as error:
                answer = answer_to(request, error)
            except Exception as error:
                await unexpected(request, error)(scope, receive, send)
                raise  # for the log of the server
            status, headers, body = _reply(scope, answer)
            headers += headers_of(record)
            record.status, record.bytes = status, len(body)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        finally:
            record.status = record.status or 500
            self._monitor.finished(scope, record)

    async def _searched(self, request: Request) -> bytes | Response:
        scope = request.scope
        with self._guards.admission.admitted(scope, route_path(scope)):
            lease = self._current.take(scope)
            try:
                return await searched(request)
            finally:
                lease.give_back()


def _reply(scope: Scope, answer: bytes | Response) -> tuple[int, Headers, bytes]:
    """Status, headers and body of an answer, compressed if large and the client takes that."""
    if isinstance(answer, bytes):
        status, body, headers = 200, answer, _HEADERS
    else:
        status, body = answer.status_code, bytes(answer.body)
        kept = [one for one in answer.raw_headers if one[0] != b"content-length"]
        headers = completed(kept)
    if len(body) >= LEAST_COMPRESSED:
        headers = [*headers, _VARY]
        if takes_gzip(scope):
            headers.append((b"content-encoding", b"gzip"))
            body = zlib.compress(body, COMPRESSION, _GZIP)
    return status, [(b"content-length", b"%d" % len(body)), *headers], body


def takes_gzip(scope: Scope) -> bool:
    """Whether a client accepts gzip, which it may refuse by a quality of 0 (RFC 9110, 12.5.3)."""
    qualities = {}
    for one in ",".join(HeadersOf(scope=scope).getlist("accept-encoding")).lower().split(","):
        coding, _, quality = "".join(one.split()).partition(";q=")
        qualities[coding] = bool(quality.strip("0.")) or not quality
    return qualities.get("gzip", qualities.get("*", False))


class Compression(GZipMiddleware):
    """Compresses answers for clients that accept it; the entity tag of such an answer is weak."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                tag = headers.get("etag", "W/")
                if "content-encoding" in headers and not tag.startswith("W/"):
                    headers["etag"] = f"W/{tag}"
            await send(message)

        if scope["type"] == "http":  # Starlette looks for the word alone
            plain = [one for one in scope["headers"] if one[0] != b"accept-encoding"]
            accepted = [(b"accept-encoding", b"gzip")] if takes_gzip(scope) else []
            scope["headers"] = plain + accepted
        await super().__call__(scope, receive, send_tagged)

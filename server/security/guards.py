"""Everything that a request passes before it reaches the routes, and what OpenAPI says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server import problems
from server.problems import MEDIA_TYPE, PROBLEM, responses
from server.security.access import (
    BEARER,
    HEALTH,
    PUBLIC,
    Access,
    Admission,
    Buckets,
    RateLimit,
)
from server.security.callers import COOKIE, Callers, Hosts
from server.security.keys import KeyRing, default_file
from server.settings import ServerSettings
from sparta.json_values import Json

Headers: TypeAlias = list[tuple[bytes, bytes]]

BURST = 10  # seconds of the permitted rate that may be used at once
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_MAPPED = re.compile(rb"(::|\b(0+:){5})ffff:(?=[\d.]+\b(?!:))", re.IGNORECASE)
HEADER, BROWSER = "apiKey", "browser"  # names of schemes in the OpenAPI document
SCHEMES = {
    BEARER: {"type": "http", "scheme": "bearer", "description": "An API key"},
    HEADER: {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key"},
    BROWSER: {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "An API key as POST /v1/sign-in stores it in a browser; for searching, "
        "and for writing from this server's page",
    },
}
# Searching: a server without keys answers its own machine, which `{}` stands for.
SEARCHING: list[dict[str, list[str]]] = [{}, {BEARER: []}, {HEADER: []}, {BROWSER: []}]
MORE: list[dict[str, list[str]]] = [{BEARER: []}, {HEADER: []}]


@dataclass(frozen=True)
class Guards:
    """What decides who may do what."""

    admission: Admission  # of requests
    # What changes requests before they are decided on, or answers afterwards; the last one is the
    # first to see a request
    outer: Sequence[Middleware]
    root_path: str  # of all routes, empty for none

    def surround(self, app: ASGIApp) -> ASGIApp:
        """An application inside `outer`."""
        for one in self.outer:
            app = one.cls(app, *one.args, **one.kwargs)
        return app


def install(app: FastAPI, settings: ServerSettings, buckets: Buckets) -> Guards:
    """Add the middleware that decides who may do what, and the headers of every answer.

    Args:
        app: the application; its `state.keys` becomes the ring of its keys.
        settings: of the server.
        buckets: of the rate limit, shared by all workers.
    """
    ring = app.state.keys = KeyRing(settings.keys or default_file())
    rate = settings.rate
    admission = Admission(
        Hosts(settings.host, settings.allowed_hosts),
        Callers(ring, direct=not settings.is_proxied),
        RateLimit(rate, max(1, round(rate * BURST)), buckets) if rate else None,
        settings.concurrency,
    )
    guards = Guards(admission, _outer(settings), settings.root_path)
    # The last one added is the first to see a request.
    app.add_middleware(Access, admission=guards.admission)
    app.add_middleware(SecurityHeaders)
    for one in guards.outer:
        app.add_middleware(one.cls, *one.args, **one.kwargs)
    app.add_exception_handler(Exception, unexpected)
    return guards


def _outer(settings: ServerSettings) -> list[Middleware]:
    found: list[Middleware] = []
    if settings.cors_origins:
        # Without credentials: scripts of other sites send keys in headers, and never our cookie.
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=("authorization", "x-api-key", "if-match", "if-none-match"),
            expose_headers=("etag", "retry-after", "x-index-version", "x-request-id"),
        )
        found.append(cors)
    if settings.root_path:
        found.append(Middleware(RootPath, root_path=settings.root_path))
    if settings.trusted_proxies:
        found.append(Middleware(Proxies, trusted_hosts=list(settings.trusted_proxies)))
    return found


class Proxies(ProxyHeadersMiddleware):
    """Middleware that believes proxies, to which IPv4 mapped into IPv6 is IPv4."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            scope["headers"] = [
                (name, _MAPPED.sub(b"", value) if name == b"x-forwarded-for" else value)
                for name, value in scope["headers"]
            ]
        await super().__call__(scope, receive, send)


class RootPath:
    """Middleware that serves an application below a path, whether or not a proxy removes it.

    Args:
        app: the application.
        root_path: begins with a slash and does not end with one.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self.app, self._root = app, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            path = scope["path"]
            if path == self._root:  # where the page's own links would lead out of it
                return await RedirectResponse(f"{path}/")(scope, receive, send)
            if not path.startswith(f"{self._root}/"):
                path = self._root + path
            # In place, for the middleware outside that logs what became of the request.
            scope["root_path"], scope["path"] = self._root, path
        await self.app(scope, receive, send)


class SecurityHeaders:
    """Middleware that adds `SECURITY_HEADERS` where a response does not set its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request and add the headers to its response."""

        async def send_completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = completed(message["headers"])
            await send(message)

        await self.app(scope, receive, send_completed)


def completed(headers: Headers) -> Headers:
    """The headers of a response, and those of `SECURITY_HEADERS` that it does not set itself."""
    present = {name for name, _ in headers}
    return [*headers, *[one for one in _RAW if one[0] not in present]]


def unexpected(request: Request, error: Exception) -> Response:
    """The answer to a request that failed by a mistake of the program.

    It is given outside all middleware, so its headers are set here.
    """
    response = problems.unexpected(request, error)
    response.headers.update(SECURITY_HEADERS)
    return response


def describe(document: Json) -> None:
    """Add the security schemes, what each operation needs, and how it is refused, to OpenAPI."""
    document["components"]["securitySchemes"] = SCHEMES
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _describe(path, operation)


def _describe(path: str, operation: Json) -> None:
    declared = operation.pop("security", [])
    needed = declared[0][BEARER][0] if declared else "search"
    if path in HEALTH:
        operation["security"] = []
        return
    kinds = ["wrong-host", "too-many-requests", "invalid-parameter"]
    if path in PUBLIC:
        operation["security"] = []
    else:
        operation["security"] = SEARCHING if needed == "search" else MORE
        kinds += ["key-needed", "scope-missing"]
    if needed != "search":
        operation["description"] += f"\n\nNeeds a key of scope {needed}."
    if "requestBody" in operation:
        kinds += ["body-too-large", "length-required"]
    documented = operation["responses"]
    for status, added in responses(*kinds).items():
        found = documented.setdefault(str(status), added)
        if found is not added:
            found["content"][MEDIA_TYPE]["examples"] |= added["content"][MEDIA_TYPE]["examples"]
            found["description"] += f", or {added['description']}"
    # Answered by the connection, before a route is known.
    large = {"description": "the address and the headers are too large", "content": PROBLEM}
    documented["431"] = large

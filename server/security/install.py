"""Everything that a request passes before it reaches the routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server.security.access import Access, Admission
from server.security.callers import Callers
from server.security.hosts import HostCheck, Hosts
from server.security.key_ring import KeyRing
from server.security.keys import default_file
from server.security.rate_limit import Buckets, RateLimit
from server.security.root_path import RootPath
from server.security_headers import SecurityHeaders
from server.settings import ServerSettings

BURST = 10  # seconds of the permitted rate that may be used at once


@dataclass(frozen=True)
class Guards:
    """What decides who may do what.

    Attributes:
        hosts: that the server answers for.
        admission: of requests.
        outer: what changes requests before they are decided on, or answers afterwards; the last
            one is the first to see a request.
        root_path: of all routes, empty for none.
    """

    hosts: Hosts
    admission: Admission
    outer: Sequence[Middleware]
    root_path: str

    def surround(self, app: ASGIApp) -> ASGIApp:
        """An application inside `outer`."""
        for one in self.outer:
            app = one.cls(app, *one.args, **one.kwargs)
        return app


def install(app: FastAPI, settings: ServerSettings, buckets: Buckets) -> Guards:
    """Add the middleware that decides who may do what.

    Args:
        app: the application; its `state.keys` becomes the ring of its keys.
        settings: of the server.
        buckets: of the rate limit, shared by all workers.

    Returns:
        what decides it.
    """
    ring = app.state.keys = KeyRing(settings.keys or default_file())
    guards = Guards(
        Hosts(settings.host, settings.allowed_hosts),
        _admission(settings, ring, buckets),
        _outer(settings),
        settings.root_path,
    )
    # The last one added is the first to see a request.
    app.add_middleware(Access, admission=guards.admission)
    app.add_middleware(HostCheck, hosts=guards.hosts)
    app.add_middleware(SecurityHeaders)
    for one in guards.outer:
        app.add_middleware(one.cls, *one.args, **one.kwargs)
    return guards


def _outer(settings: ServerSettings) -> list[Middleware]:
    found: list[Middleware] = []
    if settings.cors_origins:
        # Without credentials: scripts of other sites send keys in headers, and never our cookie.
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_headers=("authorization", "x-api-key"),
            expose_headers=("retry-after",),
        )
        found.append(cors)
    if settings.root_path:
        found.append(Middleware(RootPath, root_path=settings.root_path))
    if settings.trusted_proxies:
        trusted = list(settings.trusted_proxies)
        found.append(Middleware(ProxyHeadersMiddleware, trusted_hosts=trusted))
    return found


def _admission(settings: ServerSettings, ring: KeyRing, buckets: Buckets) -> Admission:
    rate = settings.rate
    return Admission(
        callers=Callers(ring, direct=not is_proxied(settings)),
        rate=RateLimit(rate, max(1, round(rate * BURST)), buckets) if rate else None,
        at_once=settings.concurrency,
    )


def is_proxied(settings: ServerSettings) -> bool:
    """Whether requests are said to come through a proxy."""
    return bool(settings.trusted_proxies or settings.root_path)

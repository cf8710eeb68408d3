"""Middleware that decides on every request: who sent it, whether it may, and how often."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import Array, c_double
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from math import ceil
from multiprocessing.sharedctypes import RawArray
from time import monotonic
from typing import Any

from fastapi import Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette._utils import get_route_path
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope

from server.problems import ProblemError, problem_response
from server.security.callers import LOCAL_ALLOWS, Caller, Callers, Hosts
from server.security.keys import Scope

# The path of a request below the root path, as routes are declared. Private to Starlette, but the
# very function that finds the route: two that differ could let a request pass as another.
route_path = get_route_path

# Asked by whatever watches the server, under any name of the machine, and never refused.
HEALTH = frozenset({"/livez", "/readyz"})
# The page itself, which asks for a key, and signing in and out.
PUBLIC = frozenset({"/", "/v1/sign-in", "/v1/sign-out"})
PUBLIC_FOLDER = "/page/"
# Everything else needs the scope that is named here, or "search"; see `requires` for more.
NEEDS: dict[str, Scope] = {"/metrics": "metrics"}
MAX_BODY = 64 * 1024  # bytes
MAX_WRITTEN = 64 * 1024 * 1024  # bytes of a photo, or of a batch
MAX_DELETED = 8 * 1024 * 1024  # bytes of ids: this process reads them, and searches meanwhile
WRITES = frozenset({"POST", "PUT"})
WRITTEN = re.compile(r"/v1/images/(?!count$)")  # paths of what may be as large
DELETED = "/v1/images/delete"
BEARER = "bearer"  # name of the scheme in the OpenAPI document
CELLS = 1 << 16  # of the table of limits: half a megabyte
REMEMBERED = 1024  # clients whose cells need not be found again
_NO_KEY = (
    "this needs an API key: send it as 'Authorization: Bearer KEY'; whoever runs the server makes "
    "one with: sparta keys create NAME"
)


class Admission:
    """Decides whether a request may pass, and knows which ones run.

    Args:
        hosts: that the server answers for.
        callers: recognises who sends requests.
        rate: limit on requests a second of each key or address; None for none.
        at_once: requests of each key or address that one process answers at the same time.

    Attributes:
        running: requests that run, by the names of their callers.
    """

    def __init__(
        self, hosts: Hosts, callers: Callers, rate: RateLimit | None, at_once: int
    ) -> None:
        self._hosts, self._callers = hosts, callers
        self._rate, self._at_once = rate, at_once
        self.running: Counter[str] = Counter()

    @contextmanager
    def admitted(self, scope: ASGIScope, path: str) -> Iterator[None]:
        """Let a request run, with who sent it in its scope, of which nothing sent becomes a part.

        Raises:
            ProblemError: if it is refused.
        """
        if "caller" in scope:  # of code in this process
            yield
            return
        caller = scope["caller"] = self._admit(scope, path)
        self.running[caller.name] += 1
        try:
            yield
        finally:
            self.running[caller.name] -= 1
            if not self.running[caller.name]:
                del self.running[caller.name]

    def _admit(self, scope: ASGIScope, path: str) -> Caller:
        """Who sent a request, which is counted."""
        self._hosts.check(scope)
        _check_body(scope, path)
        caller = self._callers.identify(scope)
        if caller.limited:
            self._limit(caller)
        if caller.refused:
            raise key_needed(caller.refused, error="invalid_token")
        if path not in PUBLIC and not path.startswith(PUBLIC_FOLDER):
            _check_scope(caller, NEEDS.get(path, "search"))
        return caller

    def _limit(self, caller: Caller) -> None:
        if self.running.get(caller.name, 0) >= self._at_once:
            detail = f"{caller.name} has {self._at_once} requests running; wait for one to end"
            raise _too_many(detail, 1)
        if self._rate is not None and (wait := self._rate.take(caller.name)):
            raise _too_many(f"{caller.name} has sent more requests than it may; wait", wait)


class Access:
    """Middleware that lets a request pass, or answers it with a problem."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self.app, self._admission = app, admission

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http" or (path := route_path(scope)) in HEALTH:
            return await self.app(scope, receive, send)
        try:
            with self._admission.admitted(scope, path):
                await self.app(scope, receive, send)
        except ProblemError as problem:  # of the admission: those of the application are answered
            await problem_response(Request(scope), problem)(scope, receive, send)


def in_process(app: ASGIApp) -> ASGIApp:
    """An application as code in this very process may use it: without a key, and without limits."""

    async def call(scope: ASGIScope, receive: Receive, send: Send) -> None:
        await app({**scope, "caller": Caller("this process", LOCAL_ALLOWS)}, receive, send)

    return call


class _Needs(SecurityBase):
    """A dependency that refuses requests without a scope; see `requires`.

    FastAPI describes what is a `SecurityBase` as such in the OpenAPI document.
    """

    def __init__(self, needed: Scope) -> None:
        self._needed = needed
        self.scheme_name, self.model = BEARER, HTTPBearer()

    async def __call__(self, request: Request) -> None:
        caller: Caller | None = request.scope.get("caller")
        if caller is None:  # an application without `Access`
            raise key_needed(_NO_KEY)
        _check_scope(caller, self._needed)


def requires(needed: Scope) -> Any:
    """Declare that a route needs a scope: `dependencies=[requires("admin")]`.

    All routes need "search" without saying so, but for those in `PUBLIC`.
    """
    return Security(_Needs(needed), scopes=[needed])


def _check_scope(caller: Caller, needed: Scope) -> None:
    if needed in caller.allows:
        return
    if caller.key is None:
        raise key_needed(_NO_KEY if needed == "search" else f"{_NO_KEY} --scope {needed}")
    allowed = ", ".join(sorted(caller.allows))
    detail = f"this needs a key of scope {needed}; the key {caller.key.id} allows {allowed}"
    raise ProblemError("scope-missing", detail)


def _check_body(scope: ASGIScope, path: str) -> None:
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            detail = "the length of the body is missing: send Content-Length"
            raise ProblemError("length-required", detail)
        if name == b"content-length" and int(value) > (largest := _largest_body(scope, path)):
            detail = f"the body has {int(value):,} bytes; {largest:,} are allowed"
            raise ProblemError("body-too-large", detail)


def _largest_body(scope: ASGIScope, path: str) -> int:
    if scope["method"] not in WRITES or not WRITTEN.match(path):
        return MAX_BODY
    return MAX_DELETED if (scope["method"], path) == ("POST", DELETED) else MAX_WRITTEN


def key_needed(detail: str, error: str = "") -> ProblemError:
    """A problem of a missing key, or of one that is not valid, with an error code of RFC 6750."""
    challenge = 'Bearer realm="VisualSparta"' + (f', error="{error}"' if error else "")
    return ProblemError("key-needed", detail, headers={"WWW-Authenticate": challenge})


def _too_many(detail: str, seconds: float) -> ProblemError:
    headers = {"Retry-After": str(ceil(seconds))}
    return ProblemError("too-many-requests", detail, headers=headers)


@dataclass(frozen=True)
class Buckets:
    """Shared memory for the rate limits of all workers, passed to them as they start.

    The state of a token bucket is one number, the time at which it will be full again (the generic
    cell rate algorithm), so that a fixed table of numbers is enough for any number of clients and
    workers. A client has two cells of the table, as in a count-min sketch, and the emptier bucket
    counts: another client slows it down only where it shares both. Two workers that write a cell
    at the same moment may count one request instead of two.

    Attributes:
        full_at: for each cell, the time at which its bucket is full, in seconds of the monotonic
            clock, which all processes share.
        seed: of the hash that finds cells, so that nobody can choose a name that shares another's.
    """

    full_at: Array[c_double] = field(default_factory=lambda: RawArray("d", CELLS))
    seed: bytes = field(default_factory=lambda: secrets.token_bytes(16))


class RateLimit:
    """A limit on requests a second of each key or address.

    Args:
        rate: requests a second in the long run.
        burst: requests at once, after a pause.
        buckets: shared with other workers.
    """

    def __init__(self, rate: float, burst: int, buckets: Buckets) -> None:
        self._interval = 1 / rate
        self._room = (burst - 1) / rate
        self._full_at = buckets.full_at
        self._cells = lru_cache(REMEMBERED)(partial(_cells, buckets.seed))

    def take(self, name: str) -> float:
        """Take a token from the bucket of a name.

        Returns:
            0 if there was one, else the seconds until there will be.
        """
        first, second = self._cells(name)
        table, now = self._full_at, monotonic()
        full = max(now, min(table[first], table[second]))
        if (wait := full - now - self._room) > 0:
            return float(wait)
        full += self._interval
        table[first] = max(table[first], full)
        table[second] = max(table[second], full)
        return 0.0


def _cells(seed: bytes, name: str) -> tuple[int, int]:
    """The two cells of a client."""
    digest = blake2b(name.encode(), digest_size=4, key=seed).digest()
    return digest[0] << 8 | digest[1], digest[2] << 8 | digest[3]

"""Which Host headers are answered: a defence against DNS rebinding.

A page of any site can have its own name resolved to 127.0.0.1, and its visitor's browser then lets
it read what this server answers. Such requests name that site in their Host header.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from functools import lru_cache

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.problems import ProblemError, problem_response
from server.security.root_path import route_path
from server.sockets import is_loopback

# Asked by programs that know the machine by any name, and without anything to protect.
EXEMPT = frozenset({"/livez", "/readyz"})
REMEMBERED = 128  # Host headers
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Hosts:
    """The hosts that a server answers for.

    Args:
        listening: the address it listens on.
        allowed: further names.
    """

    def __init__(self, listening: str, allowed: Iterable[str] = ()) -> None:
        self._names = {_name(name) for name in (listening, *allowed)}
        # An address in place of a name cannot be rebound: a server on all addresses has any.
        self._addresses = listening in ("0.0.0.0", "::")
        if self._addresses or is_loopback(listening):
            self._names |= LOOPBACK
        if self._addresses:
            self._names.add(socket.gethostname().lower())
        self._has = lru_cache(REMEMBERED)(self._is_one)

    def __contains__(self, header: str) -> bool:
        """Whether a Host header, with or without a port, is one of them."""
        return self._has(header)

    def _is_one(self, header: str) -> bool:
        name = _name(header)
        return name in self._names or (self._addresses and _is_address(name))

    def check(self, scope: Scope) -> None:
        """Check that a request is for one of them, by its one Host header.

        Raises:
            ProblemError: if it is not.
        """
        asked = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(asked) != 1 or asked[0] not in self:
            shown = ", ".join(map(repr, asked))[:80] or "no host"
            detail = f"the request is for {shown}; if that is this server, add --allowed-host"
            raise ProblemError("wrong-host", detail)


class HostCheck:
    """Middleware that refuses requests for other hosts with 421."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        try:
            if scope["type"] == "http" and route_path(scope) not in EXEMPT:
                self.hosts.check(scope)
        except ProblemError as problem:
            await problem_response(Request(scope), problem)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def is_loopback_name(header: str) -> bool:
    """Whether a Host header, with or without a port, names the machine itself."""
    name = _name(header)
    return name in LOOPBACK or is_loopback(name)


def _name(host: str) -> str:
    """A host in lower case without brackets, port and final dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    return host.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

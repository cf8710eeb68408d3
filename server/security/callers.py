"""Who sent a request, and for which host: a key, this machine itself, or an address without a key.

A page of any site can have its own name resolved to 127.0.0.1, and its visitor's browser then lets
it read what this server answers (DNS rebinding). Such requests name that site in their Host header.

A browser sends the cookie unasked, so the cookie alone shows only which browser sent a request.
What the page adds shows that its script did: scripts of other origins cannot add a header that is
not among the few safe ones without asking the server first, which permits none but those of keys,
and none can set `Origin` and `Sec-Fetch-Site`, with which browsers name the origin of a request.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from starlette.requests import cookie_parser
from starlette.types import Scope as ASGIScope

from server.problems import ProblemError
from server.security.keys import ALLOWS, BadKeyError, Key, KeyRing, Scope
from server.settings import plain_address

REMEMBERED = 128  # Host headers, and addresses of clients
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
COOKIE = "sparta_key"
# A browser sends the cookie unasked: it may search, and write where the page's script asks for it.
COOKIE_ALLOWS: frozenset[Scope] = frozenset({"search"})
PAGE_ALLOWS: frozenset[Scope] = frozenset({"search", "write"})
LOCAL_ALLOWS: frozenset[Scope] = frozenset({"search", "metrics"})
# Headers that proxies add; whatever begins with x-forwarded is one, too.
PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip"}
)
PAGE = b"x-sparta-page"  # a header that the page's script adds
_HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::\d{0,5})?")
SAFE = frozenset({"GET", "HEAD"})  # sent without Origin by a page to its own server


class Hosts:
    """The hosts that a server answers for."""

    def __init__(self, listening: str, allowed: Iterable[str] = ()) -> None:
        self._names = {_host(name) for name in (listening, *allowed)}
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
        name = _host(header)
        return name in self._names or (self._addresses and _is_address(name))

    def check(self, scope: ASGIScope) -> None:
        """Check that a request is for one of them, by its one Host header.

        Raises:
            ProblemError: if it is not.
        """
        asked = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(asked) != 1 or asked[0] not in self:
            shown = ", ".join(map(repr, asked))[:80] or "no host"
            remedy = "if that is this server, name it: --set allowed_hosts="
            detail = f"the request is for {shown}; {remedy}"
            raise ProblemError("wrong-host", detail)


@lru_cache(REMEMBERED)
def is_loopback(host: str) -> bool:
    """Whether a name or an address can be reached only from this machine."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _host(header: str) -> str:
    """A host in lower case without brackets, port and final dot; anything else as it is."""
    host = header.strip().lower()
    found = _HOST.fullmatch(host)
    return (found[1] or found[2] or "").removesuffix(".") if found else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Caller:
    """Who sent a request."""

    name: str  # under which limits are counted and requests logged
    allows: frozenset[Scope]  # what it may do
    key: Key | None = None  # that it sent, None without one
    limited: bool = True  # whether limits apply
    refused: str = ""  # why the key that it sent is not valid, empty otherwise


class Callers:
    """Recognises who sends requests.

    Args:
        keys: of the server.
        direct: whether requests may come from this machine without a proxy in between.
    """

    def __init__(self, keys: KeyRing, direct: bool) -> None:
        self._keys, self._direct = keys, direct
        self._holders: dict[str, Caller] = {}  # by the keys' ids

    def identify(self, scope: ASGIScope) -> Caller:
        """Who sent a request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        address = plain_address(scope["client"][0]) if scope.get("client") else ""
        if text := _sent_key(headers):
            try:
                key = self._keys.valid(text)
            except BadKeyError as error:
                return _nobody(address, str(error))
            return self._holder(key)
        if b"cookie" in headers:
            # It may be left from another server on this host: then it counts as none.
            with suppress(BadKeyError):
                cookies = cookie_parser(headers[b"cookie"].decode("latin-1"))
                key = self._keys.valid(cookies.get(COOKIE, ""))
                from_page = _is_from_page(scope["method"], headers, scope["scheme"])
                allows = PAGE_ALLOWS if from_page else COOKIE_ALLOWS
                return Caller(f"key {key.id}", ALLOWS[key.scope] & allows, key)
        if self._direct and not self._keys.in_use and _is_direct(address, headers):
            return Caller("this machine", LOCAL_ALLOWS, limited=False)
        return _nobody(address)

    def _holder(self, key: Key) -> Caller:
        """Who sends a key, made once."""
        known = self._holders.get(key.id)
        if known is None or known.key is not key:
            known = self._holders[key.id] = Caller(f"key {key.id}", ALLOWS[key.scope], key)
        return known


def _sent_key(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    # Other schemes are for a proxy in front.
    if scheme.lower() == b"bearer":
        return credentials.strip().decode("latin-1")
    return headers.get(b"x-api-key", b"").strip().decode("latin-1")


def network_of(address: str) -> str:
    """An address as limits count it: of IPv6 the network of 64 bits, which one client can have."""
    if ":" in address:
        # What a proxy forwards may be no address.
        with suppress(ValueError):
            address = str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
    return address


def _nobody(address: str, refused: str = "") -> Caller:
    return Caller(f"address {network_of(address)}", frozenset(), refused=refused)


def _is_direct(address: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request comes from this machine itself, and not through a proxy.

    A proxy shows itself by the headers it adds, or by the Host header it passes on.
    """
    return (
        is_loopback(address)
        and is_loopback(_host(headers.get(b"host", b"").decode("latin-1")))
        and not any(name in PROXY_HEADERS or name.startswith(b"x-forwarded") for name in headers)
    )


def is_of_another_origin(headers: Mapping[bytes, bytes], scheme: str) -> bool:
    """Whether a browser says that another origin's page sent a request.

    `scheme` is "http" also where a proxy that ends TLS is not named.
    """
    origin = headers.get(b"origin")
    if origin is None:
        return False
    host = headers.get(b"host", b"")
    # A page that came without TLS may be anybody's.
    return origin != b"https://" + host and (scheme == "https" or origin != b"http://" + host)


def _is_from_page(method: str, headers: Mapping[bytes, bytes], scheme: str) -> bool:
    """Whether the script of this server's page sent a request, if a browser did."""
    return (
        PAGE in headers
        # Browsers send it over TLS, and to the machine itself.
        and headers.get(b"sec-fetch-site", b"same-origin") == b"same-origin"
        and (b"origin" in headers or method in SAFE)
        and not is_of_another_origin(headers, scheme)
    )

"""Who sent a request: a key, this machine itself, or an address without a key."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from starlette.requests import cookie_parser
from starlette.types import Scope as Request

from server.security.hosts import is_loopback_name
from server.security.key_ring import BadKeyError, KeyRing
from server.security.keys import ALLOWS, Key, Scope
from server.security.same_origin import is_from_page
from server.sockets import is_loopback

COOKIE = "sparta_key"
# A browser sends the cookie unasked: it may search, and write where the page's script asks for it.
COOKIE_ALLOWS: frozenset[Scope] = frozenset({"search"})
PAGE_ALLOWS: frozenset[Scope] = frozenset({"search", "write"})
LOCAL_ALLOWS: frozenset[Scope] = frozenset({"search", "metrics"})
# Headers that proxies add; whatever begins with x-forwarded is one, too.
PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip"}
)


@dataclass(frozen=True)
class Caller:
    """Who sent a request.

    Attributes:
        name: under which limits are counted and requests logged.
        allows: what it may do.
        key: that it sent, None without one.
        limited: whether limits apply.
        refused: why the key that it sent is not valid, empty otherwise.
    """

    name: str
    allows: frozenset[Scope]
    key: Key | None = None
    limited: bool = True
    refused: str = ""


class Callers:
    """Recognises who sends requests.

    Args:
        keys: of the server.
        direct: whether requests may come from this machine without a proxy in between.
    """

    def __init__(self, keys: KeyRing, direct: bool) -> None:
        self._keys, self._direct = keys, direct
        self._holders: dict[str, Caller] = {}  # by the keys' ids

    def identify(self, request: Request) -> Caller:
        """Who sent a request, by its ASGI scope."""
        headers: dict[bytes, bytes] = dict(request["headers"])
        address = request["client"][0] if request.get("client") else ""
        if text := _sent_key(headers):
            try:
                key = self._keys.valid(text)
            except BadKeyError as error:
                return _nobody(address, str(error))
            return self._holder(key)
        if b"cookie" in headers:
            # It may be left from another server on this host: then it counts as none.
            with suppress(BadKeyError):
                key = self._keys.valid(_cookie(headers))
                from_page = is_from_page(request["method"], headers, request["scheme"])
                allows = PAGE_ALLOWS if from_page else COOKIE_ALLOWS
                return Caller(_name(key), ALLOWS[key.scope] & allows, key)
        if self._direct and not self._keys.in_use and _is_direct(address, headers):
            return Caller("this machine", LOCAL_ALLOWS, limited=False)
        return _nobody(address)

    def _holder(self, key: Key) -> Caller:
        """Who sends a key, made once."""
        known = self._holders.get(key.id)
        if known is None or known.key is not key:
            known = self._holders[key.id] = Caller(_name(key), ALLOWS[key.scope], key)
        return known


def _cookie(headers: Mapping[bytes, bytes]) -> str:
    return cookie_parser(headers[b"cookie"].decode("latin-1")).get(COOKIE, "")


def _sent_key(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    # Other schemes are for a proxy in front.
    if scheme.lower() == b"bearer":
        return credentials.strip().decode("latin-1")
    return headers.get(b"x-api-key", b"").strip().decode("latin-1")


def _name(key: Key) -> str:
    return f"key {key.id}"


def _nobody(address: str, refused: str = "") -> Caller:
    return Caller(_network(address), frozenset(), refused=refused)


def _is_direct(address: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request comes from this machine itself, and not through a proxy.

    A proxy shows itself by the headers it adds, or by the Host header it passes on.
    """
    return (
        is_loopback(address)
        and is_loopback_name(headers.get(b"host", b"").decode("latin-1"))
        and not any(name in PROXY_HEADERS or name.startswith(b"x-forwarded") for name in headers)
    )


def _network(address: str) -> str:
    """An address as limits count it: of IPv6 the network of 64 bits, which one client can have."""
    if ":" in address:
        # What a proxy forwards may be no address.
        with suppress(ValueError):
            address = str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
    return f"address {address}"

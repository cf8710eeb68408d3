"""A successful answer in JSON, with the headers that the middleware would add one by one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

from starlette.types import Scope

from server.compression import COMPRESSION, LEAST_COMPRESSED
from server.monitoring.middleware import headers_of
from server.monitoring.record import RequestRecord
from server.security_headers import RAW_HEADERS

Headers = list[tuple[bytes, bytes]]
GZIP = 16 + zlib.MAX_WBITS


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


class _Fixed(NamedTuple):
    """Headers that are the same for all answers, and how HTTP/1.1 sends them."""

    headers: Headers
    lines: bytes


def _fixed(*headers: tuple[bytes, bytes]) -> _Fixed:
    every = [(b"content-type", b"application/json"), *headers, *RAW_HEADERS]
    return _Fixed(every, _lines(every))


_VARY, _ENCODED = (b"vary", b"Accept-Encoding"), (b"content-encoding", b"gzip")
_SHORT, _PLAIN, _GZIPPED = _fixed(), _fixed(_VARY), _fixed(_VARY, _ENCODED)


@dataclass(slots=True)
class Reply:
    """An answer of status 200.

    Attributes:
        body: as it is sent.
        fixed: headers of all such answers.
        own: of this one.
    """

    body: bytes
    fixed: _Fixed
    own: Headers

    @property
    def headers(self) -> Headers:
        """All headers."""
        return [(b"content-length", b"%d" % len(self.body)), *self.fixed.headers, *self.own]

    def message(self, first: Headers) -> bytes:
        """The whole answer in HTTP/1.1, after some headers of the server."""
        length = b"content-length: %d\r\n" % len(self.body)
        head = b"HTTP/1.1 200 OK\r\n", _lines(first), length, self.fixed.lines, _lines(self.own)
        return b"".join((*head, b"\r\n", self.body))


def reply_of(body: bytes, scope: Scope, record: RequestRecord) -> Reply:
    """The answer to a request, compressed if it is large enough and the client takes that."""
    if len(body) < LEAST_COMPRESSED:
        return Reply(body, _SHORT, headers_of(record))
    if not _takes_gzip(scope):
        return Reply(body, _PLAIN, headers_of(record))
    return Reply(zlib.compress(body, COMPRESSION, GZIP), _GZIPPED, headers_of(record))


def _takes_gzip(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            return b"gzip" in value  # as Starlette decides it, by the first one
    return False

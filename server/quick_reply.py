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
_MESSAGE = (
    b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n%b"
    b"x-request-id: %b\r\nx-index-version: %b\r\n\r\n%b"
)


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
        record: of the request, which names it and the index.
    """

    body: bytes
    fixed: _Fixed
    record: RequestRecord

    @property
    def headers(self) -> Headers:
        """All headers."""
        length = b"content-length", b"%d" % len(self.body)
        return [length, *self.fixed.headers, *headers_of(self.record)]

    def message(self, first: Headers) -> bytes:
        """The whole answer in HTTP/1.1, after some headers of the server."""
        own = self.record.id.encode(), self.record.index.encode()
        return _MESSAGE % (_lines(first), len(self.body), self.fixed.lines, *own, self.body)


def reply_of(body: bytes, scope: Scope, record: RequestRecord) -> Reply:
    """The answer to a request, compressed if it is large enough and the client takes that."""
    if len(body) < LEAST_COMPRESSED:
        return Reply(body, _SHORT, record)
    if not _takes_gzip(scope):
        return Reply(body, _PLAIN, record)
    return Reply(zlib.compress(body, COMPRESSION, GZIP), _GZIPPED, record)


def _takes_gzip(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            return b"gzip" in value  # as Starlette decides it, by the first one
    return False

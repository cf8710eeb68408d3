"""Limits on connections, which uvicorn has none of: their number, and the time a client may take.

uvicorn closes a connection that is idle after an answer. One that sends nothing, or a byte now and
then, or reads nothing, it would keep for ever.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from server.monitoring.metrics import Metrics
from server.problems import MEDIA_TYPE, RETRY_AFTER, plain_problem
from server.security.guards import SECURITY_HEADERS

MAX_CONNECTIONS = 500  # of a process
MAX_HEAD = 32 * 1024  # bytes of the request line and the headers
PART = 1024 * 1024  # bytes of a body that extend the time for the rest
OFFER = {b"connection", b"upgrade", b"http2-settings"}  # headers, and tokens of the first one
JOINED = 64 * 1024  # bytes of an answer that are sent at once
SECONDS = 30.0  # for a request to arrive, and for a client to take some of an answer


class _Joining:
    """A transport that sends together what is written in one go, as the head and body of an answer.

    uvicorn writes them one by one, and sending takes as long as a search.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._written = bytearray()

    def write(self, data: bytes) -> None:
        """Send some bytes as soon as what runs now has written all, or much."""
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written += data
        if len(self._written) >= JOINED:
            self.flush()

    def flush(self) -> None:
        """Send what was written."""
        if self._written:
            written, self._written = self._written, bytearray()
            self._transport.write(written)

    def close(self) -> None:
        """Close when all is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed when its client takes too much time or room."""

    _due: float | None = None  # when the client will have taken too much time
    _timer: asyncio.TimerHandle | None = None  # comes then or before: it is not set anew each time
    _stalled: asyncio.TimerHandle | None = None
    _head = 0  # bytes of a head that is not complete
    _body = 0  # bytes of a body since the time limit began
    _receiving = _refused = False
    _since = 0.0  # when it became idle last
    _refusal: tuple[HTTPStatus, str] | None = None  # to be sent after an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        self._joining = _Joining(transport, self.loop)
        super().connection_made(self._joining)  # type: ignore[arg-type]
        self._since = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS and not self._make_room():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again")
        else:
            self._await_request()

    def _make_room(self) -> bool:
        """Close the connection that has been idle longest, if one is idle."""
        others = [one for one in self.connections if isinstance(one, LimitedProtocol)]
        idle = [one for one in others if one is not self and not one._is_busy]
        if idle:
            min(idle, key=lambda one: one._since)._close()
        return bool(idle)

    @property
    def _is_busy(self) -> bool:
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self._receiving or bool(self.transport.is_closing())

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limits."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
        if self._stalled is not None:
            self._stalled.cancel()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._refused:
            return
        self._head += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._refused or self.parser is None:
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._receiving or not answering:
            self._await_request()
        if self._head > MAX_HEAD:
            self._refuse_head()

    def _parse(self, data: bytes) -> None:
        """Parse a part of a request; an offer of another protocol is ignored (RFC 9110, 7.8)."""
        rest = memoryview(data)
        try:
            while rest and not self._refused:  # every request of a pipeline may have an offer
                try:
                    self.parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as offer:
                    rest = rest[offer.args[0] :]
                    self._parse_without_offer()
        except httptools.HttpParserError:
            self.send_400_response("")

    def _parse_without_offer(self) -> None:
        """Parse a head again, since its parser takes what follows for another protocol.

        Raises:
            HttpParserError: if it is none.
        """
        method = self.parser.get_method()
        if method == b"CONNECT" and not self._refused:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "CONNECT: this server is no proxy")
        if self._refused:
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in OFFER]
        tokens = [
            one
            for name, value in self.headers
            if name == b"connection"
            for one in value.split(b",")
        ]
        kept = [one.strip() for one in tokens if one.strip().lower() not in OFFER]
        lines += [b"connection: %b" % b", ".join(kept)] if kept else []
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._receiving = True
        self._due = None  # what counted until now was how long the connection was idle

    def on_headers_complete(self) -> None:
        """Start the answer, unless the head is too large."""
        self._head = 0
        size = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
        if size > MAX_HEAD:
            self._refuse_head()
        elif not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Read a part of the body."""
        self._head = 0
        self._body += len(body)
        if self._body >= PART:  # a photo may take longer than a search, as long as it proceeds
            self._body = 0
            self._expect(SECONDS)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._head = 0
        if self.parser.should_upgrade():  # it comes again without the offer
            return
        self._receiving = False
        self._due = None
        if not self._refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read: wait for it some time."""
        super().pause_writing()
        self._stalled = self.loop.call_later(SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if its client does not read the last of the answer."""
        self._close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST, "this is not a request in HTTP/1.1")

    def _await_request(self) -> None:
        if self._due is None:
            self._expect(SECONDS)

    def _expect(self, seconds: float) -> None:
        """Give the client some time for what it sends next."""
        self._due = self.loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Look whether the time is over."""
        self._timer = None
        if self._due is None:
            return
        if self.loop.time() < self._due:
            self._timer = self.loop.call_at(self._due, self._look)
        else:
            self._too_slow()

    def _too_slow(self) -> None:
        self._due = None
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # in the middle of an answer
        elif not self._receiving:
            self._close()  # nothing was asked
        else:
            detail = f"the request was not complete after {SECONDS:.0f} seconds"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, detail)

    def _refuse_head(self) -> None:
        detail = f"the address and the headers have more than {MAX_HEAD:,} bytes"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)

    def on_response_complete(self) -> None:
        """An answer is complete: go on with the next request, or with what was refused after it."""
        self._since = self.loop.time()
        # Several answers are sent one after another: waking clients meanwhile takes longer.
        if len(self.tasks) == 1:
            self._joining.flush()
        if self._refusal is None or self.pipeline:
            super().on_response_complete()
        else:
            self._refuse(*self._refusal)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer with a problem and close, after the requests before."""
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            self._refusal = status, detail
            return
        metrics: Metrics = self.config.app.state.metrics  # type: ignore[union-attr]
        metrics.connection_refused(status.value)
        self._due = None
        body = plain_problem(status, detail)
        headers: dict[str, Any] = SECURITY_HEADERS | {
            "Content-Type": MEDIA_TYPE,
            "Content-Length": len(body),
            "Connection": "close",
        }
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = RETRY_AFTER
        lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self._close()

    def _close(self) -> None:
        """Close when all is sent, or the client does not read it for some time."""
        self.transport.close()
        self.loop.call_later(SECONDS, self.transport.abort)

"""Limits on connections, which uvicorn has none of: their number, and the time a client may take.

uvicorn closes a connection that is idle after an answer. One that sends nothing, or a byte now and
then, or reads nothing, it would keep for ever.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import resource
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from server.problems import MEDIA_TYPE, RETRY_AFTER, plain_problem
from server.security.callers import network_of
from server.security.guards import SECURITY_HEADERS
from server.settings import plain_address

MAX_CONNECTIONS = 500  # of a process
SPARE = 64  # descriptors that connections leave for the index, the writer and photos
FILES = 10_240  # descriptors where the system permits fewer than it says, as macOS does
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
ROOM = 16  # connections that give way when there are no descriptors left
PATIENCE = 2.0  # seconds from which an unfinished head gives way before an idle connection
LINGER = 0.5  # seconds for a client to close a connection after the server
ARRIVING = 2.0  # seconds for the request of who has connected when the server stops
MAX_HEAD = 32 * 1024  # bytes of the request line and the headers
PART = 1024 * 1024  # bytes of a body that extend the time for the rest
OFFER = {b"connection", b"upgrade", b"http2-settings"}  # headers, and tokens of the first one
JOINED = 64 * 1024  # bytes of an answer that are sent at once
SECONDS = 30.0  # for a request to arrive, and for a client to take some of an answer
# What the server waits for from a client: a head; a body, or another request; the answer to be read
HEAD, MORE, READING = range(3)
REPORTED = 60.0  # seconds between two lines of the log on descriptors

log = logging.getLogger(__name__)


def raise_descriptors() -> None:
    """Let this process, and those that it starts, open as many files as the system permits."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (most, FILES):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            break
    permitted, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 < permitted < MAX_CONNECTIONS + 2 * SPARE:
        few = f"a process has fewer than {permitted - SPARE} connections"
        log.warning("the limit on open files is %d (ulimit -n): %s", permitted, few)


class Place(socket.socket):
    """A connection from its acceptance, before the handshake of TLS, until it is closed."""

    refused = over = False  # nothing gave way for it; it gave way
    protocol: LimitedProtocol | None = None  # None before the handshake

    def __init__(self, accepted: socket.socket, owner: object, places: dict[int, Place]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self.owner, self._places = owner, places  # the address or network that it counts for
        self.since = monotonic()  # when it began to wait for its client
        places[self.fileno()] = self

    def rank(self) -> tuple[int, float] | None:
        """The smaller, the sooner it gives way: overdue heads first; None for not at all."""
        awaited = self.protocol.awaited if self.protocol else HEAD
        overdue = monotonic() - self.since > PATIENCE
        if self.over or awaited is None or (awaited == READING and not overdue):
            return None
        return (awaited if overdue else MORE), self.since

    def give_way(self) -> None:
        """End the connection; the event loop closes it at once."""
        self.over = True
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._places.pop(self.fileno(), None)
        super().close()


class State(ServerState):
    """What the connections of a server share.

    `trusts` says whether an address is a proxy's, whose connections may be of many clients.
    """

    def __init__(self, trusts: Callable[[str], bool]) -> None:
        super().__init__()
        self.trusts, self.stopping = trusts, False
        self.places: dict[int, Place] = {}  # by descriptor


class Listening(socket.socket):
    """A listening socket that accepts one connection per event, and makes room for it.

    An event loop accepts all waiting connections at once: one process would take a whole burst of
    connections while the others are idle.
    """

    _accepted = True
    _reported = -math.inf

    def __init__(self, listening: socket.socket, state: State) -> None:
        super().__init__(fileno=listening.detach())
        self._places, self._trusts = state.places, state.trusts

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection and, at every second call, report that none is waiting."""
        self._accepted = not self._accepted
        if self._accepted:
            raise BlockingIOError
        try:
            accepted, address = super().accept()
        except OSError as error:
            for _ in range(ROOM if error.errno in SCARCE else 0):
                self._make_room()
            raise  # then the event loop waits a second
        host = plain_address(address[0])
        owner = object() if self._trusts(host) else network_of(host)
        place = Place(accepted, owner, self._places)
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A new descriptor has the smallest free number.
        if len(self._places) > MAX_CONNECTIONS or place.fileno() >= descriptors - SPARE > 0:
            place.refused = not self._make_room(place)
        return place, address

    def _make_room(self, new: Place | None = None) -> bool:
        """End the connection that has waited longest for the client with the most of them."""
        others = [one for one in self._places.values() if one is not new]
        ranked = [(one, rank) for one in others if (rank := one.rank())]
        held = Counter(one.owner for one, _ in ranked)
        if ranked:
            order = [
                (kind == READING, -held[one.owner], kind, since) for one, (kind, since) in ranked
            ]
            ranked[order.index(min(order))][0].give_way()
        return bool(ranked)

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log now and then that there are no descriptors; other errors as the event loop does."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in SCARCE:
            loop.default_exception_handler(context)
        elif monotonic() - self._reported > REPORTED:
            self._reported = monotonic()
            log.warning("no connections can be accepted: %s; raise ulimit -n", error.strerror)


class _Joining:
    """A transport that sends together what is written in one go, as the head and body of an answer.

    uvicorn writes them one by one, and sending takes as long as a search.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._written, self._closing = bytearray(), False

    def write(self, data: bytes) -> None:
        """Send some bytes as soon as what runs now has written all, or much."""
        if self._closing:
            return
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

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Close when all is sent, and the client has closed or had time to.

        Closed at once, what the client sends meanwhile would reset the connection, and the client
        might never read the answer.
        """
        self.flush()
        if not self._closing and self._transport.can_write_eof():  # not with TLS
            with suppress(OSError):
                self._transport.write_eof()
            self._loop.call_later(LINGER, self._transport.close)
        else:
            self._transport.close()
        self._closing = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed when its client takes too much time or room."""

    server_state: State
    _due: float | None = None  # when the client will have taken too much time
    _timer: asyncio.TimerHandle | None = None  # comes then or before: it is not set anew each time
    _stalled: asyncio.TimerHandle | None = None
    _head = 0  # bytes of a head that is not complete
    _body = 0  # bytes of a body since the time limit began
    _receiving = _refused = False
    _refusal: tuple[HTTPStatus, str] | None = None  # to be sent after an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        self._joining = _Joining(transport, self.loop)
        super().connection_made(self._joining)  # type: ignore[arg-type]
        if self.client is not None:
            self.client = plain_address(self.client[0]), self.client[1]
        self._place = self.server_state.places[transport.get_extra_info("socket").fileno()]
        self._place.protocol, self._place.since = self, monotonic()
        if self._place.refused:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again")
        else:
            self._await_request()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def awaited(self) -> int | None:
        """What the server waits for from the client, None while it answers."""
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            return READING
        if self._answering:
            return MORE if self.cycle.more_body else None
        return HEAD if self._receiving or self.cycle is None else MORE

    def shutdown(self) -> None:
        """Close, after a request that is answered or arrives; it may be the first."""
        if self.awaited == HEAD:
            self._expect(ARRIVING)
        else:
            super().shutdown()

    def interrupt(self, status: HTTPStatus, detail: str) -> None:
        """Answer in place of the application, unless it has begun to, and close."""
        if not self._answering or self.cycle.response_started:
            self.transport.abort()
            return
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.cycle = None  # type: ignore[assignment]
        self.pipeline.clear()
        self._refuse(status, detail)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limits."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
        if self._stalled is not None:
            self._stalled.cancel()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._refused or self.transport.is_closing():
            return
        self._head += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._refused or self.parser is None:
            return
        if self._receiving or not self._answering:
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
        self._receiving, self._place.since = True, monotonic()
        self._due = None  # what counted until now was how long the connection was idle

    def on_headers_complete(self) -> None:
        """Start the answer, unless the head is too large."""
        self._head = 0
        size = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
        if size > MAX_HEAD:
            self._refuse_head()
        elif not self.parser.should_upgrade():
            super().on_headers_complete()
            self.cycle.keep_alive &= not self.server_state.stopping

    def on_body(self, body: bytes) -> None:
        """Read a part of the body."""
        self._head = 0
        self._body += len(body)
        if self._body >= PART:  # a photo may take longer than a search, as long as it proceeds
            self._body, self._place.since = 0, monotonic()
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
        self._place.since = monotonic()
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
        detail = f"the request was not complete after {SECONDS:.0f} seconds"
        if self._answering:
            self.interrupt(HTTPStatus.REQUEST_TIMEOUT, detail)
        elif not self._receiving:
            self._close()  # nothing was asked
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, detail)

    def _refuse_head(self) -> None:
        detail = f"the address and the headers have more than {MAX_HEAD:,} bytes"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)

    def on_response_complete(self) -> None:
        """An answer is complete: go on with the next request, or with what was refused after it."""
        self._place.since = monotonic()
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
        if self._answering:
            self._refusal = status, detail
            return
        metrics = getattr(self.config.app.state, "metrics", None)  # type: ignore[union-attr]
        if metrics is not None:  # another application may have none
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

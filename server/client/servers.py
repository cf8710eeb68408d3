"""The servers of a client: whose turn it is, and which are left alone for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from sparta.errors import InputError
from sparta.web_address import server_address

EXAMPLE = "http://127.0.0.1:8000"
REST = 5.0  # seconds without requests after a failure, if another server can answer


@dataclass
class Server:
    """One server.

    Attributes:
        url: its address, without a slash at the end.
        rests_until: time of `monotonic` before which others are preferred.
        closed_until: time before which it has forbidden to be asked (`Retry-After`).
    """

    url: str
    rests_until: float = 0.0
    closed_until: float = 0.0


class Servers:
    """Servers of the same index, taken in turn.

    Args:
        urls: their addresses, such as `http://127.0.0.1:8000`, or the one of a single server.

    Raises:
        InputError: if there is none, or one is not an address of HTTP.
    """

    def __init__(self, urls: str | Sequence[str]) -> None:
        if not urls:
            raise InputError("give the address of at least one server")
        addresses = [urls] if isinstance(urls, str) else urls
        self._servers = [Server(server_address(url, EXAMPLE)) for url in addresses]
        self._turn = 0
        self._lock = Lock()  # of a client that several threads use

    def next(self) -> Server:
        """The server whose turn it is among those that do not rest, else the first that is back."""
        with self._lock:
            turn, self._turn = self._turn, (self._turn + 1) % len(self._servers)
            in_turn = self._servers[turn:] + self._servers[:turn]
            now = monotonic()
            return min(in_turn, key=lambda server: max(server.rests_until, now))

    def rest(self, server: Server, closed: float | None) -> None:
        """Prefer other servers from now on.

        Args:
            server: that failed.
            closed: seconds for which it has forbidden to be asked, None if it has not.
        """
        now = monotonic()
        server.closed_until = now + (closed or 0)
        server.rests_until = max(now + REST, server.closed_until)

    def back(self, server: Server) -> None:
        """The server has answered."""
        server.rests_until = server.closed_until = 0.0

"""The attempts of one request: what is tried again, where and when."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from time import monotonic

import httpx

from server.client.servers import Servers

REPEATED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
FIRST_PAUSE = 0.25  # seconds; doubles with every attempt
LONGEST_PAUSE = 30.0

Outcome = httpx.Response | httpx.TransportError


class Attempts:
    """Chooses the server of every attempt, and the pause before it.

    Every request reads, or writes what another one of its kind would write again, so repeating one
    is harmless.

    Args:
        servers: to choose from.
        retries: attempts after the first one.

    Attributes:
        server: to ask now.
    """

    def __init__(self, servers: Servers, retries: int) -> None:
        self.server = servers.next()
        self._servers, self._left = servers, retries
        self._pause = FIRST_PAUSE

    def pause_after(self, outcome: Outcome) -> float | None:
        """Seconds before the next attempt, whose server is then `server`; None if it was the last.

        Another server is asked at once. The same one is asked after a pause that doubles and is
        drawn at random, so that clients that failed together do not return together; not before
        the time that its `Retry-After` names.
        """
        if isinstance(outcome, httpx.Response) and outcome.status_code not in REPEATED:
            self._servers.back(self.server)
            return None
        closed = retry_after(outcome) if isinstance(outcome, httpx.Response) else None
        self._servers.rest(self.server, closed)
        if self._left == 0:
            return None
        self._left -= 1
        self.server = self._servers.next()
        pause = self._pause_before()
        return pause if pause <= LONGEST_PAUSE else None

    def _pause_before(self) -> float:
        now = monotonic()
        if self.server.rests_until <= now:
            return 0.0
        pause = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        closed = self.server.closed_until - now
        return pause if closed <= 0 else closed + pause


def retry_after(response: httpx.Response) -> float | None:
    """The seconds that a response's `Retry-After` asks for, None if it has none."""
    value = response.headers.get("retry-after", "")
    if value.isdecimal():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (date - datetime.now(UTC)).total_seconds())

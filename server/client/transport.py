"""How the clients reach servers: options of httpx, turns, attempts and errors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import Any

import httpx
from pydantic import ValidationError

from server.schemas import Problem
from sparta.addresses import server_address
from sparta.errors import InputError

EXAMPLE = "http://127.0.0.1:8000"
PROBLEM = "application/problem+json"
TIMEOUT = 30.0  # seconds; a dense model takes several to load at its first query
CONNECT_TIMEOUT = 5.0
RETRIES = 5  # seven seconds of pauses at most: a server restarts in less
REST = 5.0  # seconds without requests after a failure, if another server can answer
REPEATED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
FIRST_PAUSE = 0.25  # seconds; doubles with every attempt
LONGEST_PAUSE = 30.0

Outcome = httpx.Response | httpx.TransportError


class ClientError(Exception):
    """A request failed, after all attempts; the text is one line for people.

    Attributes:
        problem: the server's answer as RFC 9457 defines it; None if no server answered.
        status: its HTTP status; None if no server answered.
    """

    def __init__(self, text: str, problem: Problem | None = None) -> None:
        super().__init__(text)
        self.problem = problem
        self.status = None if problem is None else problem.status


class NotSentError(ClientError):
    """The client sent nothing, since no image can have the id that was given."""


def answered(response: httpx.Response) -> ClientError:
    """The error of a server's answer, or of one by a proxy or another server."""
    title = response.reason_phrase or "unknown status"
    detail = "the answer has no description"
    problem = Problem(type="about:blank", title=title, status=response.status_code, detail=detail)
    if response.headers.get("content-type", "").startswith(PROBLEM):
        with suppress(ValidationError):
            problem = Problem.model_validate_json(response.content)
    text = f"{response.url.host} answered {problem.status}, {problem.title}: {problem.detail}"
    if later := response.headers.get("retry-after"):
        text += f" (Retry-After: {later})"
    return ClientError(text, problem)


def options(api_key: str | None, timeout: float) -> dict[str, Any]:
    """The options of httpx's clients.

    Raises InputError if the key cannot be sent in a header; the text does not contain it.
    """
    headers = {"User-Agent": "visualsparta-client", "Accept": "application/json, image/*"}
    if api_key is not None:
        if not (api_key.isascii() and api_key.isprintable() and api_key.split() == [api_key]):
            raise InputError("the API key has spaces or characters that keys never have")
        headers["Authorization"] = f"Bearer {api_key}"
    limit = httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))
    return {"headers": headers, "timeout": limit}


@dataclass
class Server:
    """One server."""

    url: str  # its address, without a slash at the end
    rests_until: float = 0.0  # time of `monotonic` before which others are preferred
    closed_until: float = 0.0  # time before which it has forbidden to be asked (`Retry-After`)


class Servers:
    """Servers of the same index, taken in turn.

    Raises InputError if there is none, or one is not an address of HTTP.
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


class Attempts:
    """Chooses the server of every attempt, and the pause before it.

    Every request reads, or writes what another one of its kind would write again, so repeating one
    is harmless.

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
        server, now = self.server, monotonic()
        if isinstance(outcome, httpx.Response) and outcome.status_code not in REPEATED:
            server.rests_until = server.closed_until = 0.0
            return None
        closed = retry_after(outcome) if isinstance(outcome, httpx.Response) else None
        server.closed_until = now + (closed or 0)
        server.rests_until = max(now + REST, server.closed_until)
        if self._left == 0:
            return None
        self._left -= 1
        self.server = self._servers.next()
        if self.server.rests_until <= now:
            return 0.0
        pause = max(0.0, self.server.closed_until - now) + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return pause if pause <= LONGEST_PAUSE else None


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

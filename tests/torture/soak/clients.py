"""The clients of a soak: those that search and check their answers, and those that hang up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from urllib.parse import urlencode, urlsplit

import httpx

from server.client.client import AsyncClient
from server.client.transport import ClientError
from tests.torture.soak.judge import Checks
from tests.torture.soak.pauses import Over
from tests.torture.soak.plan import SoakPlan
from tests.torture.soak.tally import Tally

SLOWEST_HANG_UP = 0.1  # seconds after the request was sent
BETWEEN_HANG_UPS = 0.2
EXPENSIVE = 100  # hits that are explained for a client that does not wait for them
AFTER_FAILURE = 1.0  # seconds


@dataclass(frozen=True)
class Clients:
    """All clients of a server.

    Attributes:
        address: of the server.
        keys: of the clients, by number.
        texts: queries to choose from.
        plan: of the soak.
        judge: of the answers.
        tally: to count in.
        over: set at the end.
    """

    address: str
    keys: Sequence[str]
    texts: Sequence[str]
    plan: SoakPlan
    judge: Checks
    tally: Tally
    over: Over

    async def search(self, number: int) -> None:
        """Search one query after the other as client `number`, until the soak is over."""
        draw = random.Random(f"{self.plan.seed} {number}")
        key, transport = self.keys[number], _Counting(self.tally)
        async with AsyncClient(self.address, api_key=key, transport=transport) as client:
            while not self.over.is_set():
                query, start = draw.choice(self.texts), perf_counter()
                try:
                    explain = draw.random() < self.plan.explained
                    answer = await client.search(query, self.plan.k, explain=explain)
                except ClientError as error:
                    self.tally.failures[str(error)] += 1
                    await self.over.within(AFTER_FAILURE)
                    continue
                end = perf_counter()
                self.tally.answered(end - start)
                self.judge.check(query, answer, start, end)
                if self.plan.pause:
                    await self.over.within(draw.expovariate(1 / self.plan.pause))

    async def hang_up(self, number: int) -> None:
        """Send requests, every second one in part, and close the connection without an answer."""
        draw = random.Random(f"{self.plan.seed} {number}")
        server = urlsplit(self.address)
        while not await self.over.within(BETWEEN_HANG_UPS):
            query = urlencode({"q": draw.choice(self.texts), "k": EXPENSIVE, "explain": "true"})
            request = (
                f"GET /v1/search?{query} HTTP/1.1\r\nHost: {server.netloc}\r\n"
                f"Authorization: Bearer {self.keys[number]}\r\n\r\n"
            ).encode()
            sent = draw.choice([len(request), draw.randrange(len(request))])
            with suppress(OSError):  # of a worker that was killed
                _, writer = await asyncio.open_connection(server.hostname, server.port)
                writer.write(request[:sent])
                await self.over.within(draw.uniform(0, SLOWEST_HANG_UP))
                writer.transport.abort()
                self.tally.hung_up += 1


class _Counting(httpx.AsyncHTTPTransport):
    """Counts how attempts end."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._attempts = tally.attempts

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one attempt."""
        try:
            response = await super().handle_async_request(request)
        except httpx.TransportError as error:
            self._attempts[type(error).__name__] += 1
            raise
        self._attempts[str(response.status_code)] += 1
        return response

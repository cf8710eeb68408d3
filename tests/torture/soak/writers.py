"""The clients of a soak that write: images with terms of the queries, changed and deleted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import Any

from eval.bench.query_latency.collections.queries import TermQuery
from server.client.client import AsyncClient
from server.client.transport import ClientError
from tests.torture.soak.pauses import Over
from tests.torture.soak.plan import SoakPlan
from tests.torture.soak.tally import Tally
from tests.torture.soak.written import PREFIX, Impacts, Written

IMAGES = 25  # of each client
WAITING = 0.7  # share of the changes that wait until searches find them
DELETED, DESCRIBED, TOGETHER = 0.2, 0.1, 0.1  # shares of deletions, of metadata, and of batches
BATCH = 5
BETWEEN = 0.3  # mean seconds
AFTER_FAILURE = 1.0  # seconds

Changes = dict[str, Impacts | None]  # image → its new impacts, None to delete it


@dataclass(frozen=True)
class Writers:
    """All clients that write.

    Attributes:
        address: of the server.
        keys: of the clients, by number.
        queries: whose terms the images get.
        vocabulary: [V] terms in id order.
        scale: of the index: the weight of an impact of 1.
        largest: impact.
        plan: of the soak.
        written: where the states are noted.
        tally: to count in.
        over: set at the end.
    """

    address: str
    keys: Sequence[str]
    queries: Sequence[TermQuery]
    vocabulary: Sequence[str]
    scale: float
    largest: int
    plan: SoakPlan
    written: Written
    tally: Tally
    over: Over

    async def write(self, number: int) -> None:
        """Change one image after the other as client `number`, until the soak is over."""
        draw = random.Random(f"{self.plan.seed} writer {number}")
        ids = [f"{PREFIX}{number}/{one}" for one in range(IMAGES)]
        async with AsyncClient(self.address, api_key=self.keys[number]) as client:
            while not await self.over.within(draw.expovariate(1 / BETWEEN)):
                try:
                    await self._change(client, draw, ids)
                except ClientError as error:
                    self.tally.failures[f"write: {error}"] += 1
                    await self.over.within(AFTER_FAILURE)

    async def _change(self, client: AsyncClient, draw: random.Random, ids: list[str]) -> None:
        kind = draw.random()
        if kind < TOGETHER:
            some = draw.sample(ids, BATCH)
            changes: Changes = {one: self._impacts(draw) for one in some}
        else:
            deleted = kind < TOGETHER + DELETED
            changes = {draw.choice(ids): None if deleted else self._impacts(draw)}
        if kind > 1 - DESCRIBED:
            await self._describe(client, draw, next(iter(changes)))
            return
        for image_id, impacts in changes.items():
            self.written.sent(image_id, impacts, perf_counter())
        waits = draw.random() < WAITING
        await self._send(client, changes, "wait" if waits else "none")
        self.tally.written += len(changes)
        if waits:
            for image_id in changes:
                self.written.found(image_id, perf_counter())

    async def _send(self, client: AsyncClient, changes: Changes, refresh: Any) -> None:
        if len(changes) > 1:
            lines = [self._line(*change) for change in changes.items()]
            errors = (await client.write_batch(lines, refresh=refresh)).errors
            for error in errors:
                if not error.detail.endswith("no such image"):
                    self.tally.failures[f"batch: {error.detail}"] += 1
            return
        [(image_id, impacts)] = changes.items()
        if impacts is not None:
            await client.put_image(image_id, terms=self._weights(impacts), refresh=refresh)
        else:
            await self._delete(client, image_id, refresh)

    async def _delete(self, client: AsyncClient, image_id: str, refresh: Any) -> None:
        # Not by its path: a deletion of nothing would wait for no commit.
        await client.delete_images([image_id], refresh=refresh)

    async def _describe(self, client: AsyncClient, draw: random.Random, image_id: str) -> None:
        try:
            await client.update_image(image_id, {"n": draw.randrange(1000)})
        except ClientError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def _line(self, image_id: str, impacts: Impacts | None) -> dict[str, Any]:
        if impacts is None:
            return {"image_id": image_id, "delete": True}
        return {"image_id": image_id, "terms": self._weights(impacts)}

    def _weights(self, impacts: Impacts) -> dict[str, float]:
        return {self.vocabulary[term]: impact * self.scale for term, impact in impacts.items()}

    def _impacts(self, draw: random.Random) -> dict[int, int]:
        terms = draw.choice(self.queries).terms
        return {term: draw.randint(1, self.largest) for term in terms}

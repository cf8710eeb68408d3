"""Clients of a server that is not there."""

import asyncio

import pytest

from eval.bench.soak import clients
from eval.bench.soak.clients import Clients
from eval.bench.soak.editions import Editions
from eval.bench.soak.judge import Judge
from eval.bench.soak.pauses import Over
from eval.bench.soak.plan import SoakPlan
from eval.bench.soak.tally import Tally
from server.client.attempts import Attempts

PLAN = SoakPlan(minutes=0.01, clients=1, workers=2, images=3)
NOWHERE = "http://127.0.0.1:9"


def test_failures_are_counted_once_all_retries_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attempts, "_pause_before", lambda _: 0.0)
    monkeypatch.setattr(clients, "BETWEEN_HANG_UPS", 0.01)
    tally = Tally(PLAN.seconds)

    async def run() -> None:
        over = Over()
        found = Clients(
            NOWHERE, ["a", "b"], ["red"], PLAN, Judge(Editions(["red"], [])), tally, over
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(found.search(0))
            group.create_task(found.hang_up(1))
            await asyncio.sleep(0.2)
            over.set()

    asyncio.run(run())
    [(text, count)] = tally.failures.items()
    assert text.startswith(f"{NOWHERE} does not answer") and count == 1
    assert tally.attempts == {"ConnectError": 6}
    assert tally.hung_up == 0
    assert tally.overall() == {"answers": 0, "p50_ms": None, "p99_ms": None, "longest_ms": None}

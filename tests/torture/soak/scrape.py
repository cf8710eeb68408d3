"""Reads the metrics of a server during a soak, as Prometheus does, and checks what they count."""

from __future__ import annotations

import re
from http import HTTPStatus

import httpx

from tests.torture.soak.pauses import Over
from tests.torture.soak.tally import Tally

EVERY = 15.0  # seconds
SEARCHES = re.compile(
    r"^visualsparta_search_duration_seconds_count(?:\{[^}]*\})? (\S+)$", re.MULTILINE
)


async def scrape(server: httpx.AsyncClient, clients: int, tally: Tally, over: Over) -> None:
    """Read the metrics again and again, and once when the soak is over.

    The number of searches may not fall, nor be less than that of the answers: a search is counted
    when its answer has been sent, so a worker that is killed loses at most one of each client.

    Args:
        server: its client, with the key to the metrics.
        clients: that search.
        tally: to count in.
        over: set at the end.
    """
    before, ended = 0.0, False
    while not ended:
        ended = await over.within(EVERY)
        least = tally.answers - clients * (tally.killed + 1)
        try:
            response = await server.get("/metrics")
        except httpx.TransportError:  # of a worker that was killed
            continue
        if response.status_code != HTTPStatus.OK:
            tally.failures[f"/metrics: status {response.status_code}"] += 1
            continue
        searches = sum(map(float, SEARCHES.findall(response.text)))
        if searches < max(before, least):
            tally.failures["/metrics: searches were lost"] += 1
        before = searches
        tally.scraped += 1

"""Clients that search and write without a pause, and check every answer."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import Any

import httpx

from indexer.answer import Answer
from tests.indexer.vocabulary import RARE
from tests.served_cluster import patiently

QUERIES = ("dogs", "cat -red", "beach^2 sky", "+dog the")
K = 1000  # that a server finds at most
SCALE = 0.5  # of the indexes of tests: a term score of 1 is an impact of 2

Ranking = list[tuple[str, float]]
Expected = Mapping[str, Ranking]


def ranking(result: Answer) -> Ranking:
    return [(hit.image_id, hit.score) for hit in result.hits]


class Load:
    """A client that searches and one that writes, each after the other in its own thread.

    What is written has a term that no query has, so that the searches' right answers never change.

    Attributes:
        wrong: what should not have happened.
        retried: why requests were sent again.
        searches: answered.
        acknowledged: writes.
        written: images that were acknowledged, with their newest impacts; at most `K`.
        slowest: seconds of a search, with what was sent again.

    Args:
        url: of the server.
        key: that may write.
        expected: the answers by index version, as far as the dot, and query.
    """

    def __init__(self, url: str, key: str, expected: dict[str, Expected]) -> None:
        self._url, self._headers = url, {"X-API-Key": key}
        self.expected = expected
        self.wrong: list[Any] = []
        self.retried: list[str] = []
        self.searches, self.slowest, self.acknowledged = 0, 0.0, 0
        self.versions: set[str] = set()
        self.written: dict[str, int] = {}
        self._stopped = Event()

    @contextmanager
    def running(self, writes: bool = True) -> Iterator[Load]:
        """Run the clients until the block ends."""
        self._stopped.clear()
        tasks = [self._search, self._write] if writes else [self._search]
        threads = [Thread(target=self._guarded, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _guarded(self, task: Any) -> None:
        try:
            with httpx.Client(base_url=self._url, headers=self._headers, timeout=90) as client:
                task(client)
        except Exception as error:
            self.wrong.append(repr(error))

    def _search(self, client: httpx.Client) -> None:
        draw = random.Random(1)
        while not self._stopped.is_set():
            query, explain = draw.choice(QUERIES), draw.random() < 0.2
            asked: dict[str, Any] = {"q": query, "k": 50, "explain": explain}
            start = time.monotonic()
            found = patiently(partial(client.get, "/v1/search", params=asked), self.retried)
            self.slowest = max(self.slowest, time.monotonic() - start)
            self.searches += 1
            if found.status_code != 200:
                self.wrong.append(found.text)
                continue
            answer = found.json()
            version = answer["index_version"].partition(".")[0]
            self.versions.add(version)
            hits = [(hit["image_id"], hit["score"]) for hit in answer["hits"]]
            if hits != self.expected[version][query] or answer["partial"]:
                self.wrong.append((query, hits[:3]))

    def _write(self, client: httpx.Client) -> None:
        while not self._stopped.is_set():
            number = self.acknowledged % K
            path, impact = f"/v1/images/new/{number}", 2 * (1 + self.acknowledged % 99)
            body = {"terms": {RARE: impact * SCALE}}
            found = patiently(partial(client.put, path, json=body), self.retried)
            if found.status_code != 200:
                self.wrong.append(found.text)
                continue
            self.written[f"new/{number}"] = impact
            self.acknowledged += 1
            seen = patiently(partial(client.get, path), self.retried)
            if seen.status_code != 200:
                self.wrong.append((path, seen.text))

    def check_written(self) -> None:
        """Whether everything that was acknowledged is found."""
        url = f"{self._url}/v1/search?q={RARE}&k={K}"
        found = patiently(partial(httpx.get, url, headers=self._headers, timeout=90))
        impacts = {hit["image_id"]: hit["score"] for hit in found.json()["hits"]}
        if lost := [one for one, impact in self.written.items() if impacts.get(one) != impact]:
            self.wrong.append(f"lost {len(lost)} of {len(self.written)}: {lost[:3]}")

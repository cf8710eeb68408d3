"""Shards on a real Ray cluster of two nodes: the answers of one machine, whatever is written.

With two replicas of each shard nothing is missed when one is killed. That nothing is either when a
writer, a node, or the head is, `make torture` shows, which takes minutes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from server.app import create_app
from server.backends import open_backends
from tests.indexer.vocabulary import RARE
from tests.needs import package
from tests.served_cluster import ServedCluster, patiently, served_cluster
from tests.served_load import Load
from tests.server.apps import client_of, make_key, settings
from tests.server.test_sharded import PATHS, without_times
from tests.torture.cluster_kills import kill_one, shards_and_answers

package("ray.serve", "ray")
pytestmark = [pytest.mark.timeout(600), pytest.mark.needs("redis-server", "bash")]


class Running:
    """A cluster that serves an index with two replicas of each shard.

    Attributes:
        cluster: of two nodes.
        folder: with the index, whole and divided.
        expected: answers by version.
        key: that may write.
        client: of the server.
    """

    def __init__(self, cluster: ServedCluster, folder: Path, key: str) -> None:
        self.cluster, self.folder, self.key = cluster, folder, key
        self.index, self.expected = shards_and_answers(folder / "first", 0)
        self.client = httpx.Client(base_url=cluster.url, headers={"X-API-Key": key}, timeout=90)
        self.load = Load(cluster.url, key, self.expected)

    def get(self, path: str) -> httpx.Response:
        return patiently(lambda: self.client.get(path))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cluster")
    key = make_key(folder / "keys.yaml", "write")
    (folder / "redis").mkdir()
    with served_cluster(2, folder / "redis", keys=folder / "keys.yaml") as cluster:
        found = Running(cluster, folder, key)
        cluster.serve(found.index, 2)
        yield found
        found.client.close()


@pytest.fixture(scope="module")
def whole(running: Running) -> Iterator[TestClient]:
    chosen = settings(index=running.folder / "first" / "whole")
    with client_of(create_app(open_backends(chosen), chosen)) as found:
        yield found


def test_answers_are_those_of_one_machine(running: Running, whole: TestClient) -> None:
    for path in PATHS:
        right, found = whole.get(path), running.get(path)
        assert found.status_code == right.status_code, path
        assert without_times(found.json()) == without_times(right.json()), path


def test_batches_and_deletions_reach_every_shard(running: Running) -> None:
    lines = [{"image_id": f"w/{n}", "terms": {RARE: n + 1}} for n in range(12)]
    body = "\n".join(map(json.dumps, [*lines, {"image_id": "w/0", "delete": True}]))
    answer = running.client.post("/v1/images/batch", content=body).json()
    assert (answer["created"], answer["deleted"], answer["errors"]) == (12, 1, [])
    hits = running.get(f"/v1/search?q={RARE}&k=100").json()["hits"]
    assert [hit["image_id"] for hit in hits] == [f"w/{n}" for n in reversed(range(1, 12))]
    gone = running.client.post("/v1/images/delete", json={"ids": ["w/1", "nothing"]}).json()
    assert (gone["deleted"], gone["missing"]) == (1, ["nothing"])
    running.client.post("/v1/images/delete", json={"filter": "path:w/*"})
    assert running.client.post("/v1/images/count", json={}).json()["count"] == 50


def test_a_replica_that_is_killed_is_not_missed(running: Running) -> None:
    row = kill_one(running.cluster, running.load, "replica", random.Random(1))
    running.load.check_written()
    assert running.load.wrong == []
    assert row["victim"] == "replica"
    assert row["searches"] > 0 and row["written"] > 0


def test_another_index_is_rolled_out_without_a_failed_request(running: Running) -> None:
    running.client.post("/v1/images/delete", json={"ids": [*running.load.written]})
    index, expected = shards_and_answers(running.folder / "second", 7)
    load = Load(running.cluster.url, running.key, {**running.expected, **expected})
    with load.running(writes=False):
        running.cluster.serve(index, 1)
        time.sleep(1)
    assert load.wrong == []
    assert load.retried == []
    assert load.versions == {*running.expected, *expected}

"""Ray clusters of which something is killed: while an index is built, and while one is served.

After a worker or a node is killed the build continues; after the driver, the next build does. The
index must then be the one that a single process builds.

Shards with two replicas answer clients that search and write. No answer may be wrong, and none may
be missing: a client that sends a request again when told so gets the right one. No acknowledged
write may be lost.
"""

import os
import random
import signal
import time
from collections import Counter
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from indexer.manifest import index_folders
from indexer.state import index_version
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.ray_cluster import NODE, actors, kill_node, ray_cluster
from tests.served_cluster import ServedCluster, served_cluster
from tests.served_load import QUERIES, Expected, Load, ranking
from tests.server.apps import make_key
from tests.torture.kills import Processes, Report, Row, repeat
from tests.torture.tiny_index import answers, build, make_corpus

NODES = 3

# ---- builds --------------------------------------------------------------------------------------

PARTS = ("worker", "node", "driver")  # of a build, killed in turn
TOP_N, SHARDS_BUILT = 5, 120  # of the index, and of its feature store
SLOWEST_BUILD = 600.0  # seconds
RIGHT_BUILD = {"victim": None, "build": ("succeeded", "killed as the driver"), "index": ("right",)}


def kill_builders(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Kill so many parts of clusters; returns what happened, and what should not have."""
    with ray_cluster(NODES) as cluster, Processes() as processes:
        place = _Place(work, cluster, processes)
        return {"nodes": NODES} | repeat(count, seed, report, place.kill, RIGHT_BUILD)


class _Place:
    """Where indexes are built on a cluster."""

    def __init__(self, work: Path, cluster: Any, processes: Processes) -> None:
        self._work, self._cluster, self._processes = work, cluster, processes
        self._corpus = make_corpus(work / "corpus", SHARDS_BUILT)
        processes.run(build, self._corpus, work / "right", TOP_N)
        self._right = processes.run(answers, work / "right")
        started = time.monotonic()
        processes.run(build, self._corpus, work / "first", TOP_N, cluster.address)
        self._seconds = time.monotonic() - started

    def kill(self, rng: random.Random, number: int) -> Row:
        """Kill a part of a build, let the build end or another one continue, and compare."""
        victim, after = PARTS[number % len(PARTS)], rng.uniform(0, self._seconds)
        out = self._work / f"index-{number}"
        arguments = (self._corpus, out, TOP_N, self._cluster.address)
        child = get_context("spawn").Process(target=build, args=arguments)
        child.start()
        time.sleep(after)
        killed = self._kill(victim, child.pid, rng)
        child.join(SLOWEST_BUILD)
        if victim == "driver":
            self._processes.run(build, *arguments)
        return {
            "victim": f"{victim}{'' if killed else ': none was there'}",
            "killed_at": f"{after:.1f} of {self._seconds:.1f} s",
            "build": _end(child.exitcode, victim),
            "index": self._processes.outcome({"right": self._right}, answers, out),
        }

    def _kill(self, victim: str, driver: int | None, rng: random.Random) -> bool:
        """Kill by SIGKILL; whether there was something to kill. A killed node is replaced."""
        nodes = self._cluster.list_all_nodes()
        if victim == "node":
            kill_node(self._cluster, rng.choice(nodes[1:]))  # the first is the head
            self._cluster.add_node(**NODE)
            return True
        found = [driver] if victim == "driver" else actors(nodes, "MapWorker")
        if found and (chosen := rng.choice(found)):
            os.kill(chosen, signal.SIGKILL)
        return bool(found)


def _end(code: int | None, victim: str) -> str:
    """How a build ended; only the driver may be killed with it."""
    if code is None:
        return "not finished"
    killed = "killed as the driver" if victim == "driver" else "killed"
    return {0: "succeeded", -signal.SIGKILL: killed}.get(code, f"exit status {code}")


# ---- serving -------------------------------------------------------------------------------------

REPLICAS = 2
SHARDS = 2
IMAGES = 50
ACTORS = {
    "replica": "shard-",
    "writer": "writer-",
    "application": "sparta:ingress",
    "controller": "ServeController",
    "proxy": "Proxy",
}
VICTIMS = (*ACTORS, "node", "head", "every node")  # in turn
DOWN = 75.0  # seconds that the head is down: machines leave after 60, unless told otherwise


def shards_and_answers(folder: Path, seed: int) -> tuple[Path, dict[str, Expected]]:
    """A divided index, and what it should answer, by its version."""
    images = random_postings(small_tokenizer(), IMAGES, seed)
    described = replace(images, metadata=[{"stars": number % 4} for number in range(IMAGES)])
    write_postings(folder / "whole", [described], small_tokenizer())
    split_index(folder / "whole", folder / "divided", SHARDS)
    searcher = open_index(folder / "whole")
    right = {query: ranking(searcher.search(query, IMAGES)) for query in QUERIES}
    searcher.close()
    return folder / "divided", {index_version(folder / "divided"): right}


def kill_served(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Kill so many parts of a cluster; returns what happened, and what should not have."""
    index, expected = shards_and_answers(work, seed)
    keys = work / "keys.yaml"
    key = make_key(keys, "write")
    (work / "redis").mkdir()
    with served_cluster(NODES, work / "redis", keys=keys) as cluster:
        cluster.serve(index, REPLICAS)
        load = Load(cluster.url, key, expected)

        def kill(rng: random.Random, number: int) -> Row:
            return kill_one(cluster, load, VICTIMS[number % len(VICTIMS)], rng)

        found = repeat(count, seed, report, kill, {"victim": None})
        load.check_written()
    return found | {
        "nodes": NODES,
        "shards": len(index_folders(index)),
        "replicas": REPLICAS,
        "searches": load.searches,
        "acknowledged": load.acknowledged,
        "slowest_search_s": round(load.slowest, 2),
        "sent_again": dict(Counter(why.partition("{")[0] for why in load.retried)),
        "wrong": load.wrong,
    }


def kill_one(cluster: ServedCluster, load: Load, victim: str, rng: random.Random) -> Row:
    """Kill something while clients search and write, and wait until it runs again."""
    before = load.searches, load.acknowledged, len(load.retried)
    down = 0
    with load.running():
        time.sleep(rng.uniform(0.2, 1.5))
        if victim == "node":
            _replace(cluster, rng.choice(cluster.others()))
        elif victim == "head":
            cluster.kill_node(cluster.head())
            searches = load.searches
            time.sleep(DOWN)
            down = load.searches - searches
            cluster.add_node()
        elif victim == "every node":
            for node in [*cluster.others(), cluster.head()]:
                _replace(cluster, node)
        elif not cluster.kill(ACTORS[victim], rng):
            victim = f"{victim}: none was there"
        _settle(cluster)
    return {
        "victim": victim,
        "searches": load.searches - before[0],
        "searches_while_the_head_was_down": down,
        "written": load.acknowledged - before[1],
        "sent_again": len(load.retried) - before[2],
    }


def _replace(cluster: ServedCluster, node: Any) -> None:
    cluster.kill_node(node)
    cluster.add_node()
    _settle(cluster)


def _settle(cluster: ServedCluster) -> None:
    time.sleep(2)  # until Ray has noticed
    cluster.wait(REPLICAS)

"""Shards on a Ray cluster of which something is killed while clients search and write.

With two replicas of each shard no answer may be wrong or missing: a client that sends a request
again when told so gets the right one; and nothing that was acknowledged may be lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from indexer.search.open import open_index
from indexer.shards import index_folders
from indexer.split import split_index
from indexer.state import index_version
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.served_cluster import ServedCluster, served_cluster
from tests.served_load import QUERIES, Expected, Load, ranking
from tests.server.apps import make_key
from tests.torture.kills import counted

REPLICAS = 2
NODES = 3
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


def kill_served(count: int, seed: int, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Kill so many parts of a cluster; returns what happened, and what should not have."""
    rng, rows = random.Random(seed), []
    index, expected = shards_and_answers(work, seed)
    keys = work / "keys.yaml"
    key = make_key(keys, "write")
    (work / "redis").mkdir()
    with served_cluster(NODES, work / "redis", keys=keys) as cluster:
        cluster.serve(index, REPLICAS)
        load = Load(cluster.url, key, expected)
        for number in range(count):
            rows.append(kill_one(cluster, load, VICTIMS[number % len(VICTIMS)], rng))
            report(f"kill {number + 1} of {count}: {rows[-1]}")
        load.check_written()
    return {
        "kills": count,
        "seed": seed,
        "nodes": NODES,
        "shards": len(index_folders(index)),
        "replicas": REPLICAS,
        "searches": load.searches,
        "acknowledged": load.acknowledged,
        "slowest_search_s": round(load.slowest, 2),
        "victim": counted(rows, "victim"),
        "sent_again": counted([{"why": why.partition("{")[0]} for why in load.retried], "why"),
        "wrong": load.wrong,
    }


def kill_one(cluster: ServedCluster, load: Load, victim: str, rng: random.Random) -> dict[str, Any]:
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

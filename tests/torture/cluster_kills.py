"""Builds on a Ray cluster of which something is killed at a random time: worker, node or driver.

After a worker or a node the build goes on; after the driver the next build continues. The index
must then be the one that a single process builds.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from indexer.build import build_index
from indexer.settings import PruningSettings
from sparta.cluster import connected
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from tests.ray_cluster import NODE, kill_node, ray_cluster
from tests.torture.kills import counted
from tests.torture.tiny_index import Corpus, answers, make_corpus

VICTIMS = ("worker", "node", "driver")  # in turn
NODES = 3
COPIES = 20  # of the corpus, three shards each
PATIENCE = 600.0  # seconds for a build


def kill_parts(count: int, seed: int, work: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Kill so many parts of clusters; returns what happened, and what should not have."""
    rng, rows, spawn = random.Random(seed), [], get_context("spawn")
    with ray_cluster(NODES) as cluster, ProcessPoolExecutor(1, spawn) as whole:
        corpus = _many_shards(make_corpus(work / "corpus"))
        arguments = (corpus, work / "right", None)
        whole.submit(_build, *arguments).result()
        right = whole.submit(answers, work / "right").result()
        started = time.monotonic()
        whole.submit(_build, corpus, work / "first", cluster.address).result()
        seconds = time.monotonic() - started
        for number in range(count):
            victim, after = VICTIMS[number % len(VICTIMS)], rng.uniform(0, seconds)
            out = work / f"index-{number}"
            child = spawn.Process(target=_build, args=(corpus, out, cluster.address))
            child.start()
            time.sleep(after)
            killed = _kill(victim, cluster, child.pid, rng)
            child.join(PATIENCE)
            if victim == "driver":
                whole.submit(_build, corpus, out, cluster.address).result()
            same = whole.submit(answers, out).result() == right
            rows.append(
                {
                    "victim": f"{victim}{'' if killed else ': none was there'}",
                    "killed_at": f"{after:.1f} of {seconds:.1f} s",
                    "build": _end(child.exitcode),
                    "index": "right" if same else "wrong",
                }
            )
            report(f"kill {number + 1} of {count}: {rows[-1]}")
    summary = {key: counted(rows, key) for key in ("victim", "build", "index")}
    bad = [row for row in rows if _is_bad(row)]
    return {"kills": count, "seed": seed, "nodes": NODES, **summary, "wrong": bad}


def _is_bad(row: dict[str, Any]) -> bool:
    ends = ("killed", "succeeded") if row["victim"] == "driver" else ("succeeded",)
    return row["build"] not in ends or row["index"] != "right"


def _end(code: int | None) -> str:
    if code is None:
        return "not finished"
    return {0: "succeeded", -signal.SIGKILL: "killed"}.get(code, f"exit status {code}")


def _kill(victim: str, cluster: Any, driver: int | None, rng: random.Random) -> bool:
    """Kill by SIGKILL; whether there was something to kill. A killed node is replaced."""
    if victim == "node":
        kill_node(cluster, rng.choice(cluster.list_all_nodes()[1:]))  # the first is the head
        cluster.add_node(**NODE)
        return True
    found = [driver] if victim == "driver" else _workers(cluster)
    if not found or found[0] is None:
        return False
    os.kill(rng.choice([pid for pid in found if pid is not None]), signal.SIGKILL)
    return True


def _workers(cluster: Any) -> list[int | None]:
    """The processes that encode."""
    raylets = {
        process.process.pid
        for node in cluster.list_all_nodes()
        for process in node.all_processes["raylet"]
    }
    found: list[int | None] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            name = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent in raylets and name.startswith(b"ray::MapWorker"):
            found.append(int(status.parent.name))
    return found


def _many_shards(corpus: Corpus) -> Corpus:
    """The images of a corpus many times, three shards each time."""
    store = FeatureStore.open(corpus.features)
    many = Corpus(corpus.folder / "many")
    writer = StoreWriter(many.features, store.source)
    for copy in range(COPIES):
        for rows in store.shards:
            images = [store[row] for row in rows]
            writer.write_shard([_renamed(image, copy) for image in images])
    writer.finish()
    (many.folder / "model").symlink_to(corpus.folder / "model")
    return many


def _renamed(image: ImageFeatures, copy: int) -> ImageFeatures:
    return replace(image, image_id=f"{copy:02d}/{image.image_id}")


def _build(corpus: Corpus, out: Path, address: str | None) -> None:
    store = FeatureStore.open(corpus.features)
    pruning = PruningSettings(top_n=5, asked="none")
    with connected(address) as cluster:
        model = corpus.folder / "model"
        build_index([store], [model], out, pruning, device="cpu", cluster=cluster)

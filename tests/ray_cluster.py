"""A Ray cluster of several nodes on this machine, and numbers to square on it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparta.errors import InputError
from sparta.extras import require

NODES = 2
NODE = {"num_cpus": 2, "object_store_memory": 100 * 2**20}
# A killed node is missed after two seconds instead of half a minute, and workers start when there
# is work for them. They get their share of a busy machine: Ray would let all others go first.
SYSTEM = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
    "worker_niceness": 0,
}
HEAD = {**NODE, "include_dashboard": False, "_system_config": SYSTEM}


@contextmanager
def ray_cluster(nodes: int) -> Iterator[Any]:
    """Start so many nodes, and end their processes."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    cluster = require("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=HEAD)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**NODE)
        yield cluster
    finally:
        cluster.shutdown()


def kill_node(cluster: Any, node: Any) -> None:
    """End all processes of a node by SIGKILL."""
    cluster.remove_node(node, allow_graceful=False)


def actors(nodes: Iterable[Any], name: str) -> list[int]:
    """Process ids of the actors on some nodes whose name contains a text, from /proc."""
    raylets = {one.process.pid for node in nodes for one in node.all_processes.get("raylet", [])}
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            title = (status.parent / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # the process has just ended
            continue
        if parent in raylets and title.startswith("ray::") and name in title:
            found.append(int(status.parent.name))
    return found


def open_nothing() -> None:
    """No tool is needed."""


def square(_: None, number: int) -> int:
    return number * number


def square_or_refuse(_: None, number: int) -> int:
    if number == 2:
        raise InputError("features/shard-00002.arrow is damaged")
    return number * number


def square_or_fail(_: None, number: int) -> int:
    return 1 // number

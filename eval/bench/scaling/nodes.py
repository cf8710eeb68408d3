"""Nodes of a Ray cluster on this machine, each on a core of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sparta.errors import InputError
from sparta.extras import require

NODE = {"num_cpus": 2, "object_store_memory": 200 * 2**20}


def free_cores(count: int) -> list[int]:
    """Cores that this process may use.

    Raises:
        InputError: if there are not so many.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise InputError("sparta bench scale needs Linux, which gives each worker a core")
    cores = sorted(os.sched_getaffinity(0))
    if count > len(cores):
        raise InputError(f"--workers {count}: this process may use {len(cores)} cores")
    return cores[:count]


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Restrict this process for a while, and for good what it starts meanwhile."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


@contextmanager
def started_nodes(cores: Sequence[int]) -> Iterator[str]:
    """Start a cluster with a node on each of some cores, and end its processes.

    Yields:
        its address.
    """
    cluster = require("ray.cluster_utils").Cluster()
    try:
        for core in cores:
            with on_cores([core]):
                cluster.add_node(**NODE, include_dashboard=False)
        yield cluster.address
    finally:
        cluster.shutdown()

"""A Ray cluster of several nodes on this machine that serves an index, and clients of it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from server.cluster.deploy import serve_on
from server.settings import ServerSettings
from sparta.cluster import connected
from sparta.extras import require
from tests.milvus_server import free_port
from tests.ray_cluster import SYSTEM, actors
from tests.redis_server import redis_server

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "memory": 2**30}
# Seconds until all is well again, and a request is answered: a write waits for its writer, which
# may have been where the head was, and that is down for 75 seconds.
PATIENCE = 240.0
HEADERS = {"Host": "localhost"}


class ServedCluster:
    """A cluster whose parts can be killed.

    Nothing here stays connected to it: what is connected ends with the node it is connected to.

    Attributes:
        nodes: of Ray.
        url: of the server.
        settings: of the server.

    Args:
        head: how the head was started.
    """

    def __init__(self, nodes: Any, head: dict[str, Any], settings: ServerSettings) -> None:
        self.nodes, self.settings = nodes, settings
        self._head = head
        self.url = f"http://127.0.0.1:{settings.port}"

    def serve(self, index: Path, replicas: int) -> None:
        """Serve an index, or change over to it."""
        chosen = self.settings.model_copy(update={"index": index})
        serve_on(self.nodes.address, chosen, replicas)

    def kill(self, name: str, draw: random.Random, number: signal.Signals = signal.SIGKILL) -> bool:
        """Kill an actor's process; whether there was one."""
        found = actors(self.nodes.list_all_nodes(), name)
        if found:
            os.kill(draw.choice(found), number)
        return bool(found)

    def head(self) -> Any:
        """The node with the cluster's state; Ray Serve's controller is always there."""
        return self.nodes.head_node

    def others(self) -> list[Any]:
        """The other nodes."""
        return self.nodes.list_all_nodes()[1:]

    def kill_node(self, node: Any) -> None:
        """Kill all processes of a node."""
        for pid in actors([node], ""):
            os.kill(pid, signal.SIGKILL)
        self.nodes.remove_node(node, allow_graceful=False)

    def add_node(self) -> None:
        """Start a node in place of one that was killed.

        A head has the address and the Redis of the former one, as when Kubernetes starts it.
        """
        self.nodes.add_node(**(NODE if self.head() else self._head))

    def wait(self, replicas: int) -> None:
        """Wait until every replica runs, and as many proxies are healthy."""
        with connected(self.nodes.address):
            self._wait(replicas)

    def _wait(self, replicas: int) -> None:
        status = require("ray.serve").status
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = status()
            parts = [
                (name, part)
                for application in found.applications.values()
                for name, part in application.deployments.items()
            ]
            wanted = {n: 1 if n == "root" or n.startswith("writer") else replicas for n, _ in parts}
            running = all(part.replica_states == {"RUNNING": wanted[name]} for name, part in parts)
            # The proxy of a machine that was killed is called healthy for a while.
            there = {node.node_id for node in self.nodes.list_all_nodes()}
            proxies = [n for n, proxy in found.proxies.items() if proxy == "HEALTHY" and n in there]
            if running and len(proxies) >= min(replicas, len(there)):
                return
            time.sleep(0.2)
        raise AssertionError(status())


@contextmanager
def served_cluster(nodes: int, work: Path, **values: Any) -> Iterator[ServedCluster]:
    """Start so many nodes, and end their processes.

    Args:
        nodes: on this machine.
        work: an empty folder, for the Redis that has the cluster's state.
        values: of the server's settings.
    """
    redis = free_port()
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_REDIS_ADDRESS": f"127.0.0.1:{redis}",
        # How long the others wait for the head, as docs/scale.md has it.
        "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    }
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    settings = ServerSettings.model_validate({"index": Path("index"), "port": free_port()} | values)
    head = {
        **NODE,
        "include_dashboard": False,
        "gcs_server_port": free_port(),
        "_system_config": SYSTEM,
    }
    with redis_server(work, redis):
        cluster = require("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(nodes - 1):
                cluster.add_node(**NODE)
            yield ServedCluster(cluster, head, settings)
        finally:
            cluster.shutdown()
            del os.environ["RAY_REDIS_ADDRESS"]


def patiently(
    ask: Callable[[], httpx.Response], retried: list[str] | None = None
) -> httpx.Response:
    """Ask again while no answer comes, or one says to try again, as clients do."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = ask()
            # 503 is said by the server, 500 with plain text by Ray's proxy.
            unready = _is_unready(found)
            if not (found.status_code in (500, 502, 503) or unready):
                return found
            if time.monotonic() > end:
                return found
            said = "the proxy knows of no application" if unready else found.text[:200]
            reason = f"{found.status_code}: {said}"
        except httpx.TransportError as error:
            reason = type(error).__name__
            if time.monotonic() > end:
                raise
        if retried is not None:
            retried.append(reason)
        time.sleep(0.1)


def _is_unready(found: httpx.Response) -> bool:
    """Whether Ray's proxy says that it knows of no application, as a load balancer would see."""
    return found.status_code == 404 and "/-/routes" in found.text

"""Starts the server of an index on a Ray cluster, and changes over to another index."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from indexer.manifest import index_folders
from indexer.state import bytes_below
from indexer.store.commit import SEGMENTS
from server.cluster import Root
from server.cluster.ingress import Ingress
from server.cluster.shard import (
    INDEX,
    INGRESS,
    Served,
    ShardReplica,
    ShardWriter,
    shard_deployment,
    writer_deployment,
)
from server.security.listening import check_exposure, url
from server.settings import ServerSettings
from sparta.cluster import LOCAL, connected
from sparta.console import Console
from sparta.errors import InputError
from sparta.extras import require

AT_ONCE = 100  # questions of a replica
DRAIN = 5.0  # seconds that requests with the former index have left
LITTLE: dict[str, Any] = {"num_cpus": 0}
# How soon Ray notices that a replica is not well.
HEALTH = {"health_check_period_s": 2, "health_check_timeout_s": 10}

# Parts call one another by gRPC. With Ray's own calls, a replica whose caller died answers nobody
# until Ray's head has said so, which may have died with the caller.
ENVIRONMENT = {"RAY_SERVE_USE_GRPC_BY_DEFAULT": "1"}


def serve_on(address: str, settings: ServerSettings, replicas: int) -> None:
    """Serve on a Ray cluster; on one that this process starts, until SIGINT or SIGTERM.

    Args:
        address: HOST:PORT of the cluster's head, "auto" for the one that runs here, or "local".
        settings: see `deploy`.
        replicas: likewise.

    Raises:
        InputError: if there is no such cluster, or as `deploy`.
    """
    if settings.workers > 1:
        raise InputError("--workers is not for --ray: give --replicas")
    check_exposure(settings)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with connected(address, environment=ENVIRONMENT):
        deploy(settings, replicas)
        here = url(settings.host, settings.port, settings.scheme)
        console.print(f"Serving {settings.index} at {here} on every machine")
        if address == LOCAL:
            console.print("Stop with Ctrl+C.")
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                Event().wait()
        else:
            console.print("It stays when this command ends; serve shutdown ends it.")


def deploy(settings: ServerSettings, replicas: int) -> None:
    """Serve an index on the cluster that this process is connected to.

    An index that was served there before is changed over: its shards go when those of the new one
    answer, and no request fails.

    Args:
        settings: of the server; with the index, which is at one path on all machines.
        replicas: of each shard and of the application, on as many machines if there are.

    Raises:
        InputError: if the index cannot be opened, or Ray Serve is not installed.
    """
    serve = require("ray.serve")
    served = Served.of(settings.index)
    serve.start(proxy_location="EveryNode", http_options=_address(settings))
    spread = _spread(replicas)
    parts = [*_parts(served, settings, replicas, spread)]
    root = serve.deployment(Root).options(name="root", ray_actor_options=LITTLE)
    serve.run(root.bind(*parts), name=served.application, route_prefix=None)
    ingress = serve.deployment(serve.ingress()(Ingress)).options(
        name="ingress",
        num_replicas=replicas,
        max_ongoing_requests=10 * AT_ONCE,
        max_replicas_per_node=spread,
        ray_actor_options=LITTLE,
        user_config=asdict(served),
        **HEALTH,
    )
    serve.run(ingress.bind(settings, served), name=INGRESS, route_prefix="/")
    former = [name for name in serve.status().applications if name.startswith(INDEX)]
    former.remove(served.application)
    if former:
        time.sleep(DRAIN)
    for name in former:
        serve.delete(name)


def _parts(served: Served, settings: ServerSettings, replicas: int, spread: int) -> Iterator[Any]:
    """The deployments of an index, bound."""
    serve = require("ray.serve")
    for number, folder in enumerate(index_folders(Path(served.folder))):
        yield (
            serve.deployment(ShardReplica)
            .options(
                name=shard_deployment(number),
                num_replicas=replicas,
                max_ongoing_requests=AT_ONCE,
                max_replicas_per_node=spread,
                ray_actor_options={**LITTLE, "memory": bytes_below(folder / SEGMENTS)},
                **HEALTH,
            )
            .bind(served, number)
        )
        yield (
            serve.deployment(ShardWriter)
            .options(
                name=writer_deployment(number),
                num_replicas=1,
                max_ongoing_requests=AT_ONCE,
                ray_actor_options=LITTLE,
                **HEALTH,
            )
            .bind(served, number, settings.models)
        )


def _spread(replicas: int) -> int:
    """How many replicas a machine may have: one, if there are as many machines."""
    machines: int = sum(node["Alive"] for node in require("ray").nodes())
    return -(-replicas // max(1, machines))


def _address(settings: ServerSettings) -> dict[str, Any]:
    """Where Ray's proxies listen."""
    chain, key = settings.certificate or (None, None)
    return {
        "host": settings.host,
        "port": settings.port,
        "ssl_certfile": chain and str(chain),
        "ssl_keyfile": key and str(key),
    }

"""What it costs to ask shards: one index, shards in one process, and shards on Ray Serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from eval.bench.serving.access import Access
from eval.bench.serving.measure import CONCURRENCY, RATE, WARM_UP, WARM_UP_CONNECTIONS
from eval.bench.serving.server_process import serving
from eval.bench.serving.wrk import Load, drive, search_paths
from indexer.split import split_index
from indexer.state import IndexState
from server.sockets import listen
from sparta.progress import Progress, no_progress

WHOLE, LOCAL, CLUSTER = "one index", "shards, one process", "shards, Ray Serve"


@dataclass(frozen=True)
class HopFigures:
    """Latencies over HTTP.

    Attributes:
        images: of the index.
        shards: that it was divided into.
        loads: by server, the ones of several rounds after one another.
    """

    images: int
    shards: int
    loads: Mapping[str, Sequence[Load]]

    @property
    def failed(self) -> int:
        """Requests without an answer, or answered with an error."""
        return sum(sum(load.errors.values()) for own in self.loads.values() for load in own)

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        loads = {name: [asdict(load) for load in own] for name, own in self.loads.items()}
        return {"images": self.images, "shards": self.shards, "loads": loads}

    def table(self) -> Table:
        """The figures as a table."""
        title = f"{self.images:,} images, {self.shards} shards; times in ms"
        table = Table(title=title, box=SIMPLE_HEAD)
        for column in ("server", "at once", "answers/s", "p50", "p95", "p99", "errors"):
            table.add_column(column, justify="left" if column == "server" else "right")
        for name, own in self.loads.items():
            for load in own:
                times = (f"{time:.2f}" for time in (load.p50_ms, load.p95_ms, load.p99_ms))
                rate, errors = f"{load.per_second:,.0f}", str(sum(load.errors.values()))
                table.add_row(name, str(load.connections), rate, *times, errors)
        return table


def measure_hop(
    index: Path,
    queries: Sequence[str],
    shards: int,
    connections: Sequence[int],
    seconds: int,
    k: int,
    progress: Progress = no_progress,
) -> HopFigures:
    """Load each of the three servers in turn, the same way.

    Args:
        index: as it was built.
        queries: sent in this order, repeatedly.
        shards: to divide it into.
        connections: numbers of connections.
        seconds: for each number.
        k: images of an answer.
        progress: stages "divide", in images, and "load", in loads.

    Raises:
        InputError: if the index cannot be divided, or a server does not start.
    """
    with TemporaryDirectory() as work:
        folder = Path(work)
        split_index(index, folder / "divided", shards, progress)
        paths = folder / "paths.txt"
        paths.write_text("\n".join(search_paths(queries, k)) + "\n", encoding="ascii")
        access = Access.create(folder / "keys.json", 1)
        limits = {"keys": access.file, "rate": RATE, "concurrency": CONCURRENCY}
        flags = [text for name, value in limits.items() for text in (f"--{name}", str(value))]
        with listen("127.0.0.1", 0) as free:
            port = str(free.getsockname()[1])
        servers = {
            WHOLE: (index, flags),
            LOCAL: (folder / "divided", flags),
            CLUSTER: (folder / "divided", [*flags, "--ray", "local", "--port", port]),
        }
        loads: dict[str, list[Load]] = {}
        for name, (served, options) in servers.items():
            with serving(served, *options) as server:
                drive(server.address, paths, WARM_UP_CONNECTIONS, WARM_UP, access.search[0])
                for number in connections:
                    load = drive(server.address, paths, number, seconds, access.search[0])
                    loads.setdefault(name, []).append(load)
                    done = sum(map(len, loads.values()))
                    progress("load", done, len(servers) * len(connections))
        return HopFigures(IndexState.read(index).manifest.images, shards, loads)

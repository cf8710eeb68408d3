"""The metrics of a server for Prometheus, of one process or of several together.

Several processes write their values to files that they all read. Each has a number that its
replacement takes over: it continues the counters of a process that died, so that they never fall,
and the number of files does not grow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # read by the library
NAMESPACE = "visualsparta"  # before the name of every metric
MS = 1000
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SEARCH_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
_STATM = Path("/proc/self/statm")


# What the process that writes counts, and the texts of these metrics.
WRITER_COUNTS = {
    "commits": "Commits of the writer",
    "commit_seconds": "Time of these commits",
    "images_written": "Images added, replaced, or given other metadata through this server",
    "images_deleted": "Images deleted through this server",
    "segments_merged": "Segments of columns that the writer made by compacting and merging",
}


class WriterCounts(NamedTuple):
    """What a writer has done since the server started; see `WRITER_COUNTS`."""

    commits: float = 0
    commit_seconds: float = 0
    images_written: float = 0
    images_deleted: float = 0
    segments_merged: float = 0


Children: TypeAlias = dict[tuple[str, ...], Histogram]


def share(folder: Path, worker: int) -> None:
    """Let this process write its metrics to files of a folder, before any are made.

    The folder is of all processes of a server; no other one that lives has this one's number.
    """
    os.environ[FOLDER_VARIABLE] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: worker)


def forget(folder: Path, worker: int) -> None:
    """Drop what a process that ended can no longer have, such as searches that run in it."""
    mark_process_dead(worker, str(folder))


class Metrics:
    """All metrics of a process; `folder` is None for one of its own, see `share`."""

    def __init__(self, worker: int = 0, folder: Path | None = None) -> None:
        disable_created_metrics()
        self._folder = folder
        self._worker = str(worker)
        self._registry = own = CollectorRegistry()
        counter = partial(Counter, namespace=NAMESPACE, registry=own)
        gauge = partial(Gauge, namespace=NAMESPACE, registry=own, multiprocess_mode="livesum")
        histogram = partial(Histogram, namespace=NAMESPACE, registry=own)
        self._requests = histogram(
            "request_duration_seconds",
            "Time from a request's arrival to the end of its answer",
            ("method", "route", "code"),
            buckets=REQUEST_BUCKETS,
        )
        self._searches = histogram(
            "search_duration_seconds",
            "Time of a search, without waiting and explanations",
            ("backend", "engine"),
            buckets=SEARCH_BUCKETS,
        )
        # Looking them up in the library takes as long as counting.
        self._request_children: Children = {}
        self._search_children: Children = {}
        self.refused = counter("searches_refused", "Searches refused as too many")
        self._connections_refused = counter(
            "connections_refused", "Connections refused before a request was complete", ("code",)
        )
        self._changes = counter(
            "index_changes", "Indexes that were opened, refused or refreshed", ("result",)
        )
        self._writer = {
            name: counter(f"index_{name}", text) for name, text in WRITER_COUNTS.items()
        }
        self._written = WriterCounts()
        self.lost_lines = counter("log_lines_lost", "Lines that a log could not take")
        self._running = gauge("searches_running", "Searches that run in threads")
        self._waiting = gauge("searches_waiting", "Searches that wait for a thread")
        worker_label = ("worker",)
        self._images = gauge("index_images", "Images of the index", worker_label)
        self._missing = gauge(
            "index_images_without_vectors",
            "Images of the index that a dense model has no vectors of",
            ("worker", "backend"),
        )
        self._bytes = gauge("index_bytes", "Bytes of the index's files", worker_label)
        self._created = gauge(
            "index_created_timestamp_seconds", "When the index was built", worker_label
        )
        self._memory = gauge(
            "process_resident_memory_bytes", "Memory of a process, shared files too", worker_label
        )

    def request(self, method: str, route: str, code: int, seconds: float) -> None:
        """A request was answered."""
        _child(self._requests, self._request_children, (method, route, str(code))).observe(seconds)

    def search(self, backend: str, engine: str, milliseconds: float) -> None:
        """A search ended."""
        found = _child(self._searches, self._search_children, (backend, engine))
        found.observe(milliseconds / MS)

    def connection_refused(self, code: int) -> None:
        """A connection was refused with a status of HTTP."""
        self._connections_refused.labels(str(code)).inc()

    def index_change(self, result: str) -> None:
        """A rebuilt index was "opened" or "refused", or one that was written to "refreshed"."""
        self._changes.labels(result).inc()

    def writer(self, counts: WriterCounts) -> None:
        """The writer has done so much since the server started."""
        for name, before in self._written._asdict().items():
            self._writer[name].inc(max(0.0, getattr(counts, name) - before))
        self._written = counts

    def work(self, running: int, waiting: int) -> None:
        """Searches run and wait."""
        self._running.set(running)
        self._waiting.set(waiting)

    def index(self, images: int, size: int, created: float) -> None:
        """An index is served: so many images, bytes, and built at this time (Unix)."""
        self._images.labels(self._worker).set(images)
        self._bytes.labels(self._worker).set(size)
        self._created.labels(self._worker).set(created)

    def missing(self, images: Mapping[str, int]) -> None:
        """Dense models, by their backends, have no vectors of so many images."""
        for backend, count in images.items():
            self._missing.labels(self._worker, backend).set(count)

    def measure_memory(self) -> None:
        """Look how much memory the process has; nothing happens without /proc."""
        if _STATM.exists():
            pages = int(_STATM.read_text().split()[1])
            self._memory.labels(self._worker).set(pages * os.sysconf("SC_PAGE_SIZE"))

    def text(self) -> bytes:
        """The metrics of all processes as Prometheus reads them."""
        registry = self._registry
        if self._folder is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, str(self._folder))
        return generate_latest(registry)


def _child(metric: Histogram, children: Children, labels: tuple[str, ...]) -> Histogram:
    found = children.get(labels)
    if found is None:
        found = children[labels] = metric.labels(*labels)
    return found

"""`sparta bench serve`: servers under load, one after the other, with and without writes beside."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import count, pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from urllib.parse import urlencode

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from eval.bench.collections import enlarge, read_source
from eval.bench.engines import postings_of
from eval.bench.load import Load, Server, drive, serving, write_key
from indexer.index_writer import write_index
from indexer.manifest import OFFSETS, Manifest, index_folders
from indexer.postings import PostingShard
from indexer.settings import IndexSettings
from server.client.client import Client
from server.client.operations import Refresh
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

WARM_UP = 5  # seconds; Java compiles hot code during the first 20,000 queries or so
WARM_UP_CONNECTIONS = 8
RATE, CONCURRENCY = 1_000_000, 1000  # limits that are counted and never reached
DRAWN = 500  # distinct images that a writer sends, over and over under new ids
COLUMNS = ("workers", "at once", "writes/s", "answers/s", "p50", "p99", "CPU", "errors")
METADATA = {"width": 500, "height": 375}  # of a usual photo
AWAIT_EVERY = 1.0  # seconds between writes whose search is awaited


@dataclass(frozen=True)
class ServeSetting:
    """How a server is started."""

    engine: str  # as in `sparta serve --engine`
    workers: int  # its processes


@dataclass
class Written:
    """What a writer beside a load saw.

    Attributes:
        acknowledged: seconds until the server had saved an image, for each of them.
        found: seconds until searches found an image, for those that waited for it.
        seconds: that it wrote.
    """

    acknowledged: list[float] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    seconds: float = 0

    @property
    def images(self) -> int:
        """Images that were added."""
        return len(self.acknowledged) + len(self.found)

    @property
    def per_second(self) -> float:
        """Images added a second."""
        return self.images / self.seconds

    def record(self) -> dict[str, float]:
        """The figures as JSON values, times in milliseconds."""
        figures = {"written_per_second": self.per_second}
        for name, seconds in (("acknowledged", self.acknowledged), ("found", self.found)):
            p50, p99 = np.percentile(1000 * np.array(seconds), [50, 99])
            figures |= {f"{name}_p50_ms": float(p50), f"{name}_p99_ms": float(p99)}
        return figures


@dataclass(frozen=True)
class Served:
    """A server under one load."""

    setting: ServeSetting  # of the server
    load: Load  # as the load generator measured it
    server_ms: float  # the server's processor time per request, in milliseconds, writes included
    written: Written | None = None  # beside it; None without a writer

    def record(self) -> Json:
        """The figures as JSON values."""
        figures = {"requests_per_second": self.load.per_second, "server_ms": self.server_ms}
        writing = self.written.record() if self.written else {}
        return asdict(self.setting) | asdict(self.load) | figures | writing


@dataclass(frozen=True)
class UnderLoad:
    """All servers under all loads."""

    images: int  # of the index
    shards: int  # of the index, 1 if it is not divided
    runs: list[Served]  # in the order of measurement

    @property
    def failed(self) -> int:
        """Requests without an answer, or answered with an error."""
        return sum(sum(run.load.errors.values()) for run in self.runs)

    def record(self) -> Json:
        """The figures as JSON values."""
        runs = [run.record() for run in self.runs]
        return {"images": self.images, "shards": self.shards, "runs": runs}

    def table(self) -> Table:
        """One row for each load."""
        about = (
            f"{self.images:,} images, shards: {self.shards}; times in ms, CPU is the server's for "
            "one request."
        )
        lines = [about, *(_writing(run, run.written) for run in self.runs if run.written)]
        table = Table(
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            caption="\n".join(lines),
            caption_justify="left",
        )
        table.add_column("engine")
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for run in self.runs:
            load = run.load
            rate = run.written.per_second if run.written else 0
            table.add_row(
                *(run.setting.engine, str(run.setting.workers), str(load.connections)),
                *(f"{rate:.0f}", f"{load.per_second:,.0f}"),
                *(f"{one:.2f}" for one in (load.p50_ms, load.p99_ms, run.server_ms)),
                str(sum(load.errors.values())),
            )
        return table


def _writing(run: Served, written: Written) -> str:
    """What a writer saw, in a line."""
    figures = written.record()
    times = (
        f"{name} after {figures[f'{name}_p50_ms']:,.0f} ms (p99 {figures[f'{name}_p99_ms']:,.0f})"
        for name in ("acknowledged", "found")
    )
    return (
        f"With {run.load.connections} at once ({run.setting.engine}, workers: "
        f"{run.setting.workers}) a write was {', '.join(times)}."
    )


def measure_serving(
    index: Path,
    queries: Sequence[str],
    settings: Sequence[ServeSetting],
    connections: Sequence[int],
    seconds: int,
    k: int,
    writes: int = 0,
    progress: Progress = no_progress,
) -> UnderLoad:
    """Start a server for each setting, warm it up, and load it over each number of connections.

    Every request has an API key. Limits are counted, and so high that they refuse nothing.

    Writes are images a second that are added to a copy of the index, during a second load over
    each number of connections; 0 for none. Reports progress of the stage "load", in loads.

    Raises:
        InputError: if wrk is not installed, or a server does not start.
    """
    runs: list[Served] = []
    folders = index_folders(index)
    rates = [0, writes] if writes else [0]
    images = 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        paths = folder / "paths.txt"
        sent = (urlencode({"q": query, "k": k}) for query in queries)
        paths.write_text("".join(f"/v1/search?{one}\n" for one in sent), encoding="ascii")
        key = write_key(folder / "keys.json")
        limits = {"rate": RATE, "concurrency": CONCURRENCY}
        flags = ["--keys", str(folder / "keys.json")]
        for name, value in limits.items():
            flags += ["--set", f"{name}={value}"]
        new = _new_images(folders[0]) if writes else []
        for setting in settings:
            options = ["--engine", setting.engine, "--workers", str(setting.workers), *flags]
            with _served(index, folder if writes else None, *options) as server:
                writer = Writer(server.address, key, new)
                images = writer.count()
                drive(server.address, paths, WARM_UP_CONNECTIONS, WARM_UP, key)
                # The index is as it was built until the last load without writes is over.
                for rate, number in product(rates, connections):
                    with writer.writing(rate) as written:
                        before = server.processor_seconds()
                        load = drive(server.address, paths, number, seconds, key)
                        used = server.processor_seconds() - before
                    each = 1000 * used / max(1, load.requests)
                    runs.append(Served(setting, load, each, written if rate else None))
                    progress("load", len(runs), len(settings) * len(connections) * len(rates))
                writer.check(images)
    return UnderLoad(images, len(folders), runs)


@contextmanager
def _served(index: Path, copies: Path | None, *options: str) -> Iterator[Server]:
    """A server of an index, or of a copy in a folder, which is removed afterwards."""
    if copies is None:
        with serving(index, *options) as server:
            yield server
        return
    with TemporaryDirectory(dir=copies) as name:
        copy = Path(name) / "index"
        shutil.copytree(index, copy)
        with serving(copy, *options) as server:
            yield server


# ---- writes beside -----------------------------------------------------------------------------


class Writer:
    """Adds images to the index of a server, from threads of this process.

    Args:
        new: term → score above its offset, for each of the images that are sent over and over.
    """

    def __init__(self, address: str, key: str, new: Sequence[Mapping[str, float]]) -> None:
        self._client, self._new = partial(Client, address, api_key=key), new
        self._numbers = count()
        self._written = 0

    @contextmanager
    def writing(self, rate: int) -> Iterator[Written]:
        """Add images while the `with` block runs; what came of it is complete at its end.

        `rate` is images a second, each sent when the one before is acknowledged, so that a busy
        server gets fewer; and one more a second, whose search is awaited. 0 is for none.

        Raises:
            ClientError: if a request fails.
        """
        written = Written()
        if not rate:
            yield written
            return
        over = Event()
        with self._client() as client, ThreadPoolExecutor(2) as pool:
            if not self._written:  # with the first image the server opens its writer: seconds
                self._add(client, "wait")
                self._written += 1
            start = time.perf_counter()
            tasks = [
                pool.submit(self._repeat, client, "none", 1 / rate, over, written.acknowledged),
                pool.submit(self._repeat, client, "wait", AWAIT_EVERY, over, written.found),
            ]
            try:
                yield written
            finally:
                over.set()
            for task in tasks:
                task.result()
            # The last one, after which searches find all of them.
            written.found.append(self._add(client, "wait"))
        written.seconds = time.perf_counter() - start
        self._written += written.images

    def _repeat(
        self, client: Client, refresh: Refresh, pause: float, over: Event, seconds: list[float]
    ) -> None:
        """Add an image at every multiple of a pause, one at a time, and note what each took."""
        begin = time.perf_counter()
        while True:
            seconds.append(self._add(client, refresh))
            if over.wait(begin + len(seconds) * pause - time.perf_counter()):
                return

    def _add(self, client: Client, refresh: Refresh) -> float:
        """Add an image; seconds until the answer."""
        number = next(self._numbers)
        start = time.perf_counter()
        terms = self._new[number % len(self._new)]
        client.put_image(f"new/{number:09d}.jpg", terms=terms, refresh=refresh)
        return time.perf_counter() - start

    def count(self) -> int:
        """How many images searches find."""
        with self._client() as client:
            return client.count()

    def check(self, before: int) -> None:
        """Compare the images that searches find with those that were there and those added.

        Raises:
            InputError: if they are not as many.
        """
        found, wanted = self.count(), before + self._written
        if found != wanted:
            raise InputError(f"the server finds {found:,} images after writing, not {wanted:,}")


def _new_images(index: Path) -> list[dict[str, float]]:
    """Near-duplicates of images of an index, as a client sends them."""
    source, scale = read_source(index), Manifest.open(index).scale
    rows = next(enlarge(source, DRAWN, None, "near-duplicates", seed=1))
    names = [source.vocabulary[term] for term in rows.indices]
    scores = (scale * rows.data).tolist()
    parts = [slice(*edges) for edges in pairwise(rows.indptr)]
    return [dict(zip(names[part], scores[part], strict=True)) for part in parts]


# ---- a larger index ----------------------------------------------------------------------------


def enlarge_index(index: Path, out: Path, images: int, progress: Progress = no_progress) -> None:
    """Write an index of any size, made of near-duplicates of the images of a small one.

    Ids rise with the numbers of the images, and no grounding is stored. Reports progress of the
    stage "write", in images.

    Raises:
        InputError: if the folder is no index.
    """
    manifest = Manifest.open(index)

    def shards() -> Iterator[PostingShard]:
        first = 0
        for rows in enlarge(read_source(index), images, None, "near-duplicates"):
            numbers = range(first, first + rows.shape[0])
            ids = [f"{number // 1000:06d}/{number:09d}.jpg" for number in numbers]
            yield PostingShard(postings_of(rows, ids, METADATA))
            first = numbers.stop
            progress("write", first, images)

    write_index(
        out,
        shards(),
        WordPieceTokenizer.from_folder(index),
        IndexSettings(**{one.name: getattr(manifest, one.name) for one in fields(IndexSettings)}),
        np.load(index / OFFSETS, allow_pickle=False),
        manifest.scale,
        images=images,
    )

"""Servers under load, one after the other, with and without writes beside.

    python -m tests.load index/ --queries captions.txt --writes 50 --out serve.json

Starts `sparta serve` for each engine and number of workers, and sends GET /v1/search by wrk over
each number of connections. --writes repeats each load beside a writer, and times how long writes
take to be found. --images draws a larger index from the given one (seed 0).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from argparse import RawDescriptionHelpFormatter as Raw
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import count, pairwise, product
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Event
from typing import IO
from urllib.parse import urlencode

import numpy as np

from eval.bench.collections import enlarge, read_source
from eval.bench.engines import postings_of
from eval.bench.queries import read_queries
from eval.report import circumstances
from indexer.index_writer import write_index
from indexer.manifest import OFFSETS, Manifest, index_folders
from indexer.postings import PostingShard
from indexer.settings import IndexSettings
from server.client.client import Client
from server.client.operations import Refresh
from server.security.keys import new_key, write_keys
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.tokenizer import TermTokenizer

SCRIPT = Path(__file__).with_name("load.lua")
ERRORS = ("connect", "read", "write", "timeout", "status")
STOP_SECONDS = 40  # more than a server has for requests in flight
WARM_UP = 5  # seconds; Java compiles hot code during the first 20,000 queries or so
WARM_UP_CONNECTIONS = 8
LIMITS = ("rate=1000000", "concurrency=1000")  # which are counted and never reached
DRAWN = 500  # distinct images that a writer sends, over and over under new ids
METADATA = {"width": 500, "height": 375}  # of a usual photo
AWAIT_EVERY = 1.0  # seconds between writes whose search is awaited


# ---- a server as a child process, and load on it by the generator wrk ---------------------------


def write_key(file: Path) -> str:
    """Write a file of one new API key, which allows to search and to write; the key."""
    record, key = new_key("bench", "write")
    write_keys(file, [record])
    return key


@dataclass(frozen=True)
class Server:
    """A running server."""

    address: str  # without a path
    pid: int  # of its first process, the leader of a new session

    def processor_seconds(self) -> float:
        """Processor time of all its running processes so far; nan without /proc."""
        if not Path("/proc/self/stat").exists():
            return float("nan")
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # the process has just ended
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(index: Path, *options: str) -> Iterator[Server]:
    """Serve an index on a free local port, and stop the server at the end in any case."""
    command = [sys.executable, "-m", "sparta", "serve", str(index), "--port", "0", *options]
    with TemporaryFile() as output:
        process = subprocess.Popen(command, stderr=output, start_new_session=True)
        try:
            address = _address(process, output)
            yield Server(address, process.pid)
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """Wait until the server answers, however long its start takes."""
    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", _read(output))
        if found:
            with suppress(OSError), urllib.request.urlopen(f"{found[0]}/readyz", timeout=1):
                return found[0]
        time.sleep(0.05)
    last = (_read(output).strip().splitlines() or ["nothing"])[-1]
    raise InputError(f"the server did not start; its last output: {last}")


def _read(output: IO[bytes]) -> str:
    # pread does not move the file position, which the child process shares.
    return os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):  # usually all its processes have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class Load:
    """Figures of a load: each connection sends its next request after each answer."""

    connections: int  # open, each with one request in flight
    requests: int  # answered
    seconds: float  # of the load
    mean_ms: float  # from sending a request to its answer, in milliseconds
    p50_ms: float  # half of the requests took at most this
    p95_ms: float  # 95 of 100
    p99_ms: float  # 99 of 100
    errors: dict[str, int]  # by kind: connect, read, write, timeout, status (400 and above)
    generator_cores: float  # processor seconds of the load generator per second
    answer_bytes: float  # of an answer on average, with its headers

    @property
    def per_second(self) -> float:
        """Requests answered a second."""
        return self.requests / self.seconds


def find_wrk() -> str:
    """The program's path."""
    found = shutil.which("wrk")
    if found is None:
        raise InputError(
            "the load generator wrk is not on PATH: install it (Debian and Ubuntu: apt-get "
            "install wrk; macOS: brew install wrk) and run this again"
        )
    return found


def drive(address: str, paths: Path, connections: int, seconds: int, key: str) -> Load:
    """Send requests from one thread to an address, in the order of a file of paths, repeatedly."""
    numbers = ["--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"]
    numbers += ["--header", f"X-API-Key: {key}"]
    command = [find_wrk(), *numbers, "--script", str(SCRIPT), address, "--", str(paths)]
    before = _processor_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    used = _processor_seconds() - before
    if done.returncode:
        raise InputError(f"wrk failed: {(done.stderr or done.stdout).strip()}")
    return read_figures(done.stdout, connections, used)


def read_figures(output: str, connections: int, processor_seconds: float) -> Load:
    """Parse the output of wrk with our script, which prints the last line."""
    try:
        found = json.loads(output.strip().splitlines()[-1])
        seconds, requests = found["microseconds"] / 1e6, int(found["requests"])
        mean, p50, p95, p99 = (found[name] / 1000 for name in ("mean", "p50", "p95", "p99"))
        errors = {name: int(found[name]) for name in ERRORS}
        cores, size = processor_seconds / seconds, found["bytes"] / max(1, requests)
        return Load(connections, requests, seconds, mean, p50, p95, p99, errors, cores, size)
    except (ValueError, LookupError, TypeError, ZeroDivisionError) as error:
        raise InputError(f"wrk's figures cannot be read ({error!r}): {output.strip()}") from error


def _processor_seconds() -> float:
    """Of all child processes that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# ---- servers under load --------------------------------------------------------------------------


@dataclass
class Written:
    """What a writer beside a load saw."""

    # Seconds until the server had saved an image, for each of them.
    acknowledged: list[float] = field(default_factory=list)
    # Seconds until searches found an image, for those that waited for it.
    found: list[float] = field(default_factory=list)
    seconds: float = 0  # that it wrote

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

    engine: str  # as in `sparta serve --engine`
    workers: int  # processes of the server
    load: Load  # as the load generator measured it
    server_ms: float  # the server's processor time per request, in milliseconds, writes included
    written: Written | None = None  # beside it; None without a writer

    def record(self) -> Json:
        """The figures as JSON values."""
        started = {"engine": self.engine, "workers": self.workers}
        figures = {"requests_per_second": self.load.per_second, "server_ms": self.server_ms}
        writing = self.written.record() if self.written else {}
        return started | asdict(self.load) | figures | writing


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


def measure_serving(
    index: Path,
    queries: Sequence[str],
    settings: Sequence[tuple[str, int]],
    connections: Sequence[int],
    seconds: int,
    k: int,
    *,
    images: int | None = None,
    writes: int = 0,
) -> UnderLoad:
    """Start a server for each setting, warm it up, and load it over each number of connections.

    Settings are engines and numbers of workers. Every request has an API key. Limits are counted,
    and so high that they refuse nothing.

    With `images` the index is enlarged to as many. Writes are images a second that are added to a
    copy of the index, during a second load over each number of connections; 0 for none.
    """
    runs: list[Served] = []
    rates, found = [0, writes] if writes else [0], 0
    with TemporaryDirectory() as name:
        folder, copy = Path(name), Path(name) / "copy"
        if images:
            _enlarge_index(index, folder / "index", images)
            index = folder / "index"
        sent = (urlencode({"q": query, "k": k}) for query in queries)
        paths, keys = folder / "paths.txt", folder / "keys.json"
        paths.write_text("".join(f"/v1/search?{one}\n" for one in sent), encoding="ascii")
        key = write_key(keys)
        flags = ["--keys", str(keys), *(f"--set={one}" for one in LIMITS)]
        new = _new_images(index_folders(index)[0]) if writes else []
        for engine, workers in settings:
            if writes:
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(index, copy)
            options = ["--engine", engine, "--workers", str(workers), *flags]
            with serving(copy if writes else index, *options) as server:
                writer = Writer(server.address, key, new)
                found = writer.count()
                drive(server.address, paths, WARM_UP_CONNECTIONS, WARM_UP, key)
                # The index is as it was built until the last load without writes is over.
                for rate, number in product(rates, connections):
                    with writer.writing(rate) as written:
                        before = server.processor_seconds()
                        load = drive(server.address, paths, number, seconds, key)
                        used = server.processor_seconds() - before
                    each = 1000 * used / max(1, load.requests)
                    runs.append(Served(engine, workers, load, each, written if rate else None))
                writer.check(found)
        return UnderLoad(found, len(index_folders(index)), runs)


# ---- writes beside -----------------------------------------------------------------------------


class Writer:
    """Adds images to the index of a server, from threads of this process."""

    def __init__(self, address: str, key: str, new: Sequence[Mapping[str, float]]) -> None:
        # Term → score above its offset, for each of the images that are sent over and over.
        self._client, self._new = partial(Client, address, api_key=key), new
        self._numbers = count()
        self._written = 0

    @contextmanager
    def writing(self, rate: int) -> Iterator[Written]:
        """Add images while the `with` block runs; what came of it is complete at its end.

        `rate` is images a second, each sent when the one before is acknowledged, so that a busy
        server gets fewer; and one more a second, whose search is awaited. 0 is for none.
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
        """Compare the images that searches find with those that were there and those added."""
        found, wanted = self.count(), before + self._written
        if found != wanted:
            raise InputError(f"the server finds {found:,} images after writing, not {wanted:,}")


def _new_images(index: Path) -> list[dict[str, float]]:
    """Near-duplicates of images of an index, as a client sends them."""
    source, scale = read_source(index), Manifest.of(index).scale
    rows = next(enlarge(source, DRAWN, None, "near-duplicates", seed=1))
    names = [source.vocabulary[term] for term in rows.indices]
    scores = (scale * rows.data).tolist()
    parts = [slice(*edges) for edges in pairwise(rows.indptr)]
    return [dict(zip(names[part], scores[part], strict=True)) for part in parts]


# ---- a larger index ----------------------------------------------------------------------------


def _enlarge_index(index: Path, out: Path, images: int) -> None:
    """Write an index of any size, made of near-duplicates of the images of a small one.

    Ids rise with the numbers of the images, and no grounding is stored.
    """
    manifest = Manifest.of(index)

    def shards() -> Iterator[PostingShard]:
        first = 0
        for rows in enlarge(read_source(index), images, None, "near-duplicates"):
            numbers = range(first, first + rows.shape[0])
            ids = [f"{number // 1000:06d}/{number:09d}.jpg" for number in numbers]
            yield PostingShard(postings_of(rows, ids, METADATA))
            first = numbers.stop

    write_index(
        out,
        shards(),
        TermTokenizer.from_folder(index),
        IndexSettings(**{one.name: getattr(manifest, one.name) for one in fields(IndexSettings)}),
        np.load(index / OFFSETS, allow_pickle=False),
        manifest.scale,
        images=images,
    )


def main() -> int:
    """Measure, print and write; 1 if requests failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=Raw)
    parser.add_argument("index", type=Path)
    parser.add_argument("--queries", type=Path, required=True, help="one a line, at least two")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--engine", nargs="+", default=["columns"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--images", type=int, help="size of the index that is drawn")
    parser.add_argument("--writes", type=int, default=0, help="images a second")
    parser.add_argument("-k", type=int, default=10, help="hits")
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    parser.add_argument("--out", type=Path, help="JSON file")
    asked = parser.parse_args()
    # SIGTERM ends it as Ctrl+C does, so that the server it started is stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings, queries = [*product(asked.engine, asked.workers)], read_queries(asked.queries)
    numbers = settings, asked.connections, asked.seconds, asked.k
    found = measure_serving(
        asked.index, queries, *numbers, images=asked.images, writes=asked.writes
    )
    text = json.dumps({**circumstances(), "seed": 0, **found.record()}, indent=1)
    print(text)  # noqa: T201
    if asked.out:
        asked.out.write_text(text + "\n")
    return int(found.failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""What it takes from photos to an index, stage by stage: time, memory, and sizes on disk.

    python -m tests.build_speed photos/ --images 1000 --out build.json

Builds an index as `sparta index` does, and removes it. "extraction" turns photos into features,
"encoding" features into impacts, while Lucene is written; "index" is the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from eval.report import circumstances
from indexer.build import build_index
from indexer.encoding.features import extract_stores, feature_source
from indexer.maintenance.info import index_info
from indexer.settings import USUAL, PruningSettings
from indexer.state import bytes_below
from sparta.errors import InputError
from sparta.extract.photos import list_photos
from sparta.features.store import HEADER, FeatureStore
from sparta.json_values import Json

EVERY = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True)
class Stage:
    """A part of the way from photos to an index."""

    # "extraction", of features from photos; "encoding", from features to the pruned impacts of the
    # last image, while Lucene is being written; "index", from then to the complete index; or "all".
    name: str
    seconds: float  # that it took
    images: int  # that went through it
    memory: int | None  # peak of all processes together in bytes, None where it cannot be read

    @property
    def per_second(self) -> float:
        """Images a second."""
        return self.images / self.seconds


@dataclass(frozen=True)
class BuildSpeed:
    """One index, and what its stages took."""

    model: str  # its name
    images: int  # in the index
    postings: int  # of all images
    top_n: int | None  # terms an image keeps at most
    conversion_seconds: float  # of converting networks, once on a machine; not part of the stages
    stages: list[Stage]  # in their order, "all" last
    # On disk, by part: the features, and the parts of the index as in `sparta info`.
    bytes: dict[str, int]

    def record(self) -> Json:
        """The figures as JSON values."""
        stages = [asdict(one) | {"images_per_second": one.per_second} for one in self.stages]
        return asdict(self) | {"stages": stages}


def measure_build(
    source: Path, model: str, *, images: int | None = None, pruning: PruningSettings
) -> BuildSpeed:
    """Build an index as `sparta index` does, time its stages, and remove it.

    The first `images` photos by name are taken, None for all.
    """
    with TemporaryDirectory() as name, watch() as peak:
        out = Path(name) / "index"
        clock = _Clock(peak)
        store = _features(source, model, out, images, clock)
        manifest = build_index([store], [model], out, pruning, progress=clock)
        clock.end("index", manifest.images)
        peaks = [one.memory for one in clock.stages if one.memory]
        seconds = sum(one.seconds for one in clock.stages)
        whole = Stage("all", seconds, manifest.images, max(peaks, default=None))
        return BuildSpeed(
            model=Path(model).name,
            images=manifest.images,
            postings=manifest.postings,
            top_n=manifest.top_n,
            conversion_seconds=clock.converted,
            stages=[*clock.stages, whole],
            bytes={"features": bytes_below(store.folder)} | index_info(out).bytes,
        )


def _features(
    source: Path, model: str, out: Path, images: int | None, clock: _Clock
) -> FeatureStore:
    """The features that are given, or those of the photos."""
    if (source / HEADER).is_file():
        if images is not None:
            raise InputError(f"--images: {source} is a feature store, which is indexed whole")
        return FeatureStore.open(source)
    stamps = dict(islice(list_photos(source).items(), images))
    if images is not None and len(stamps) < images:
        raise InputError(f"--images {images}: {source} has {len(stamps)} photos")
    features = out.with_name(f"{out.name}.features")
    made_by = feature_source([model], "visual_sparta")
    (store,) = extract_stores(source, made_by, features, stamps, clock)
    clock.end("extraction", len(stamps))
    return store


class _Clock:
    """Times stages; as a `Progress` it learns from a build when the last image is encoded."""

    def __init__(self, peak: Peak) -> None:
        self.stages: list[Stage] = []
        self.converted = 0.0
        self._peak = peak
        self._start = self._conversion = time.perf_counter()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage == "convert" and not done:
            self._conversion = time.perf_counter()
        elif stage == "convert" and done == total:
            seconds = time.perf_counter() - self._conversion
            self.converted += seconds
            self._start += seconds
        elif stage == "encode" and done == total:
            self.end("encoding", total)

    def end(self, stage: str, images: int) -> None:
        """Note a stage that began where the one before ended."""
        now = time.perf_counter()
        self.stages.append(Stage(stage, now - self._start, images, self._peak.bytes))
        self._start, self._peak.bytes = now, None


# ---- memory ------------------------------------------------------------------------------------


@dataclass
class Peak:
    """The largest sum of memory so far, in bytes; None where it cannot be read."""

    bytes: int | None = None


@contextmanager
def watch(process: int | None = None) -> Iterator[Peak]:
    """Sample the memory from a thread until the `with` block ends.

    Memory is what is resident, mapped files included, though the system could take those back. A
    page that n processes share counts as an nth in each of them (Linux' proportional set size).
    The process is that of an id, None for this one.
    """
    peak, over = Peak(), threading.Event()

    def sample() -> None:
        while not over.wait(EVERY):
            resident = [proportional_size(pid) for pid in family(process or os.getpid())]
            if resident[0]:
                peak.bytes = max(peak.bytes or 0, sum(resident))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def family(process: int) -> list[int]:
    """A process, and from /proc its children, theirs and so on."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:  # without /proc, or the process has ended
        children = []
    return [process, *(pid for child in children for pid in family(child))]


def proportional_size(pid: int) -> int:
    """A process's share of memory in bytes; 0 without /proc, or if the process has ended."""
    try:
        sums = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", sums, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def main() -> None:
    """Measure, print and write."""
    # As sparta index does: torch's waiting threads must leave the cores to the writers.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", type=Path, help="folder of photos, or a feature store")
    parser.add_argument("--model", default="photos")
    parser.add_argument("--images", type=int)
    parser.add_argument("--top-n", type=int, default=USUAL.top_n)
    parser.add_argument("--out", type=Path, help="JSON file")
    asked = parser.parse_args()
    pruning = PruningSettings(top_n=asked.top_n)
    found = measure_build(asked.photos, asked.model, images=asked.images, pruning=pruning)
    text = json.dumps({**circumstances(), **found.record()}, indent=1)
    print(text)  # noqa: T201
    if asked.out:
        asked.out.write_text(text + "\n")


if __name__ == "__main__":
    main()

"""Time the building of an index from encoded images, as `sparta index` builds it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from eval.bench.indexing.encoded_images import EncodedImages
from eval.bench.indexing.index_speed import IndexSpeed, Whole
from eval.bench.indexing.stage_costs import SAMPLE, stage_costs
from eval.bench.peak_memory import watch
from indexer.impacts import ImpactParameters, encode_rows
from indexer.index_writer import write_index
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from indexer.postings import Postings, PostingShard
from indexer.pruning import estimate_offsets
from indexer.quantisation import Quantiser
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress

SHARD = 512  # images, as `sparta extract` makes shards


def measure_indexing(
    images: EncodedImages,
    count: int,
    top_n: int | None,
    bits: int,
    work: Path,
    progress: Progress = no_progress,
) -> IndexSpeed:
    """Time the stages one by one, and an index of `count` images.

    Args:
        images: encoded; repeated up to `count`.
        count: images of the index.
        top_n: terms an image keeps at most, None for all.
        bits: of an impact.
        work: folder for temporary files, which are removed.
        progress: of the stages "costs", "encode", "write", "merge" and "columns".
    """
    pruning = impact_parameters(images, top_n, bits)
    # First, because Java has compiled nothing yet at the start of `sparta index` either.
    whole = build(images, count, pruning, work, progress)
    costs = stage_costs(images, pruning, work, min(SAMPLE, count), progress)
    return IndexSpeed(images.name, count, top_n, bits, whole, costs)


def impact_parameters(images: EncodedImages, top_n: int | None, bits: int) -> ImpactParameters:
    """As `sparta index` determines them from a sample."""
    offset = estimate_offsets(images.scored.scores, "mean")
    largest = ((images.scored.scores.max(axis=0) - offset) * images.allowed).max()
    return ImpactParameters(offset, images.allowed, top_n, Quantiser.fit(float(largest), bits))


def build(
    images: EncodedImages, count: int, pruning: ImpactParameters, work: Path, progress: Progress
) -> Whole:
    """Build an index as `sparta index` does, and remove it."""
    reached: dict[str, float] = {}  # stage → the last sign of it

    def tell(stage: str, done: int, total: int = count) -> None:
        reached[stage] = time.perf_counter()
        progress(stage, done, count)

    def shards() -> Iterator[PostingShard]:
        for start in range(0, count, SHARD):
            rows = range(start, min(start + SHARD, count))
            shard = encode_rows(images, rows, pruning)
            shard.postings.save(folder / f"shard-{start:09d}.npz")
            tell("encode", rows.stop)
            yield shard

    with TemporaryDirectory(dir=work) as name, watch() as peak:
        folder = Path(name)
        settings = _settings(images, pruning)
        offset, scale = pruning.offset, pruning.quantiser.scale
        start, used = time.perf_counter(), _processor_seconds()
        manifest = write_index(
            folder / "index",
            shards(),
            images.tokenizer,
            settings,
            offset,
            scale,
            images=count,
            progress=tell,
        )
        end, used = time.perf_counter(), _processor_seconds() - used
        encoded, memory = reached["encode"], peak.bytes
        return Whole(
            seconds=end - start,
            processor_seconds=used,
            encode_seconds=encoded - start,
            merge_seconds=max(reached[stage] for stage in {"write", "merge"} & {*reached})
            - encoded,
            columns_seconds=reached["columns"] - encoded,
            lucene_seconds=_lucene_alone(folder, images.tokenizer.vocabulary, count),
            postings=manifest.postings,
            memory=memory,
            scores=sum(part.nbytes for part in images.scored),
            shards=sum(path.stat().st_size for path in folder.glob("shard-*.npz")),
            lucene=sum(size for _, size in _lucene_files(manifest)),
            segments=sum(name.endswith(".si") for name, _ in _lucene_files(manifest)),
        )


def _lucene_alone(folder: Path, vocabulary: Sequence[str], count: int) -> float:
    """Seconds in which a new process makes a Lucene index of the stored shards, and no more."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_index_stored, folder, vocabulary, count).result()


def _index_stored(folder: Path, vocabulary: Sequence[str], count: int) -> float:
    start = time.perf_counter()
    with LuceneWriter(folder / "alone", vocabulary, count) as lucene:
        for path in sorted(folder.glob("shard-*.npz")):
            lucene.add(Postings.load(path))
    return time.perf_counter() - start


def _processor_seconds() -> float:
    """Of this process and the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _lucene_files(manifest: Manifest) -> list[tuple[str, int]]:
    parts = manifest.parts.items()
    return [(name, part.bytes) for name, part in parts if name.startswith(f"{LUCENE}/")]


def _settings(images: EncodedImages, pruning: ImpactParameters) -> IndexSettings:
    return IndexSettings(
        models=[images.name],
        features=[],
        photos=None,
        top_n=pruning.top_n,
        bits=pruning.quantiser.bits,
        offset="mean",
        offset_images=len(images.images),
        terms="trained",
    )

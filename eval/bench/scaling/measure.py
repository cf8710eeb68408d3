"""Measures workers of a Ray cluster on this machine, each on a core of its own."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np

from eval.bench.scaling.nodes import free_cores, on_cores, started_nodes
from eval.bench.scaling.results import ScaleFigures, Spread
from indexer.encoding.term_scores import ImageEncoder
from indexer.encoding.workers import EncoderCopy
from indexer.impacts import ImpactParameters, encode_rows
from indexer.quantisation import Quantiser
from indexer.settings import USUAL
from sparta.cluster import connected
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress


class Block(NamedTuple):
    """An encoded block.

    Attributes:
        content: its postings, pickled.
        busy: seconds of processor time.
        started: when its work began, by the machine's `time.monotonic`.
        ended: likewise.
    """

    content: bytes
    busy: float
    started: float
    ended: float


def measure_scale(
    store: FeatureStore,
    model: str,
    workers: Sequence[int],
    blocks: int,
    progress: Progress = no_progress,
) -> ScaleFigures:
    """Encode blocks of images on one core without Ray, then by workers with a core each.

    Args:
        store: whose shards are the blocks, repeated if there are too few.
        model: folder or hub name.
        workers: their numbers, one measurement each.
        blocks: to encode in each; at least twice as many as there are workers.
        progress: stage "encode", in blocks.

    Raises:
        InputError: if the model does not fit the features, or there are fewer cores than workers.
    """
    free_cores(max(workers))  # before anything is measured
    encoder = ImageEncoder.open([store], [model], device="cpu", terms="trained")
    copy = EncoderCopy.of(encoder, [model], "cpu")
    work = partial(_timed, parameters=_parameters(encoder))
    units = list(islice(cycle(store.shards), blocks))
    images = sum(len(unit) for unit in units)
    spread: list[Spread] = []
    total = blocks * (1 + len(workers))

    def watched(found: Iterator[Block]) -> Iterator[Block]:
        for number, block in enumerate(found, start=1):
            yield block
            progress("encode", len(spread) * blocks + number, total)

    with on_cores(free_cores(1)):
        started = time.monotonic()
        own = copy.open()
        alone = list(watched(map(partial(work, own), units)))
    spread.append(_spread(0, alone, images, started, 0))
    size = int(np.mean([len(block.content) for block in alone]))
    for count in workers:
        with started_nodes(free_cores(count)) as address:
            started = time.monotonic()
            with connected(address, "cpu") as cluster:
                assert cluster is not None
                found = list(watched(cluster.map(copy.open, work, units)))
                block_ms = _overhead(cluster.map(_no_tool, _no_work, [size] * blocks))
        spread.append(_spread(count, found, images, started, block_ms))
    return ScaleFigures(max(map(len, units)), blocks, size, spread)


def _spread(
    workers: int, blocks: Sequence[Block], images: int, started: float, block_ms: float
) -> Spread:
    """The figures of some workers that began at a time."""
    first = min(block.started for block in blocks)
    last = max(block.ended for block in blocks)
    busy = 1000 * float(np.mean([block.busy for block in blocks]))
    return Spread(workers, images / (last - first), busy, block_ms, first - started)


def _overhead(results: Iterable[bytes]) -> float:
    """Milliseconds between results, without the first."""
    arrived = [time.perf_counter() for _ in results]
    return 1000 * (arrived[-1] - arrived[0]) / (len(arrived) - 1)


def _parameters(encoder: ImageEncoder) -> ImpactParameters:
    """Of an index without offsets, in which an image has as many terms as in the usual one."""
    allowed = encoder.allowed("trained")
    quantiser = Quantiser.fit(1.0, USUAL.bits)
    return ImpactParameters(np.zeros(len(allowed), np.float32), allowed, USUAL.top_n, quantiser)


def _timed(encoder: ImageEncoder, rows: Iterable[int], parameters: ImpactParameters) -> Block:
    started, busy = time.monotonic(), time.process_time()
    content = pickle.dumps(encode_rows(encoder, rows, parameters))
    return Block(content, time.process_time() - busy, started, time.monotonic())


def _no_tool() -> None:
    pass


def _no_work(_: None, size: int) -> bytes:
    return bytes(size)

"""Processor time of each stage of building an index."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from eval.bench.indexing.encoded_images import EncodedImages
from indexer.impacts import ImpactParameters, batch_postings, keep_terms
from indexer.lucene.document import Documents, Texts
from indexer.lucene.segment_writer import SegmentWriter, merge_segments
from indexer.packing import pack_all
from indexer.postings import Postings
from sparta.progress import Progress, no_progress

SAMPLE = 4096  # images of one part
WARM_UPS, ROUNDS = (
    4,
    5,
)  # until Java has compiled what it runs often; and of which the median counts

Costs = dict[str, float]


def stage_costs(
    images: EncodedImages,
    pruning: ImpactParameters,
    work: Path,
    sample: int = SAMPLE,
    progress: Progress = no_progress,
) -> Costs:
    """Run one stage after the other on the same images.

    Args:
        images: encoded.
        pruning: from scores to impacts.
        work: folder for temporary files.
        sample: images to run on.
        progress: of the stage "costs", in rounds.

    Returns:
        stage → seconds of processor time an image, of all threads.
    """
    found: list[Costs] = []
    for done in range(WARM_UPS + ROUNDS):
        with TemporaryDirectory(dir=work) as folder:
            costs: Costs = {}
            postings = _encode(images, pruning, sample, costs)
            _keep(postings, Path(folder), costs)
            _write(postings, images, Path(folder), costs)
        found.append(costs)
        progress("costs", done + 1, WARM_UPS + ROUNDS)
    return {stage: median(costs[stage] for costs in found[WARM_UPS:]) / sample for stage in costs}


def _encode(
    images: EncodedImages, pruning: ImpactParameters, sample: int, costs: Costs
) -> Postings:
    batches = list(images.batches(range(sample)))
    with _timed(costs, "prune"):
        kept = [keep_terms(batch.scored, pruning) for batch in batches]
    with _timed(costs, "quantise"):
        impacts = [pruning.quantiser.impacts(one.scores) for one in kept]
        for one, levels in zip(kept, impacts, strict=True):
            pruning.quantiser.report(one.scores, levels)
    with _timed(costs, "put in rows"):
        own = zip(batches, kept, impacts, strict=True)
        return Postings.joined([batch_postings(*one) for one in own])


def _keep(postings: Postings, folder: Path, costs: Costs) -> None:
    with _timed(costs, "write shard"):
        postings.save(folder / "shard.npz")
    with _timed(costs, "read shard"):
        Postings.load(folder / "shard.npz")


def _write(postings: Postings, images: EncodedImages, folder: Path, costs: Costs) -> None:
    parts = [folder / "0", folder / "1"]
    texts = Texts(images.tokenizer.vocabulary)
    free: list[Documents] = []
    for part in parts:
        with _timed(costs, "make text"):
            texts.of(postings)
        with _timed(costs, "pack regions"):
            pack_all(postings)
        writer = SegmentWriter(part, texts, free)
        with _timed(costs, "add to Lucene"):
            writer.add(postings)
            writer.wait()
        costs["add to Lucene"] -= costs["make text"] + costs["pack regions"]
        with _timed(costs, "flush segment"):
            writer.finish()
            writer.wait()
    with _timed(costs, "merge segments"):
        merge_segments(parts, folder / "merged")
    costs["merge segments"] /= len(parts)


@contextmanager
def _timed(costs: Costs, stage: str) -> Iterator[None]:
    start = time.process_time()
    yield
    costs[stage] = time.process_time() - start

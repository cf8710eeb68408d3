"""A model's scorers take turns at encoding; then recall through an index of each one's scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench.encoding.precisions.results import PrecisionFigures, ScorerFigures
from eval.bench.encoding.precisions.scorers import BATCH, OpenedModel
from eval.pruning.caption_ranking import CaptionQueries
from eval.pruning.choices import PruningChoice
from eval.pruning.pruned_index import PrunedIndex
from eval.pruning.term_scores import TermScoreMatrix
from eval.recall.images import Images
from indexer.encoding.asked import asked_terms
from indexer.encoding.term_scores import ImageEncoder
from indexer.pruning import estimate_offsets
from indexer.settings import USUAL
from sparta.captions.read import CaptionedPhoto
from sparta.features.store import FeatureStore
from sparta.metrics import Recall
from sparta.progress import Progress, no_progress

DEFAULT = PruningChoice(USUAL.top_n, "mean", "trained", "model", USUAL.asked_power)
EXAMPLES = 256  # images in which int8 finds the ranges of inputs


@dataclass(frozen=True)
class PrecisionPlan:
    """What is measured.

    Attributes:
        store: of features.
        model: folder or hub name.
        images: encoded in a turn, the store's first.
        turns: of each scorer.
        captions: of photos of the store, to measure recall among them; may be empty.
        work: folder for temporary files.
    """

    store: FeatureStore
    model: str
    images: int
    turns: int
    captions: Sequence[CaptionedPhoto]
    work: Path


def measure_precisions(plan: PrecisionPlan, progress: Progress = no_progress) -> PrecisionFigures:
    """Measure all scorers; progress of the stages "turns" and "recall", in scorers.

    Raises:
        InputError: as `OpenedModel.open`, or if the store lacks a captioned photo.
    """
    photos = sorted(plan.captions, key=lambda photo: photo.image_id)
    rows = Images.of(plan.store, [photo.image_id for photo in photos]).rows
    # Ranges of inputs are not measured on the photos that recall is.
    others = [row for row in range(len(plan.store)) if row not in {*rows}] or list(rows)
    examples = others[:: max(1, len(others) // EXAMPLES)]
    model = OpenedModel.open(plan.store, plan.model, examples)
    encoders = {
        name: ImageEncoder([scorer], model.tokenizer, [plan.store], BATCH, "trained")
        for name, scorer in model.scorers(plan.work).items()
    }
    times = _take_turns(plan, encoders, progress)
    figures = []
    for name, encoder in encoders.items():
        wall, processor = zip(*times[name], strict=True)
        rates = [plan.images / seconds for seconds in wall]
        spent = [1000 * seconds / plan.images for seconds in processor]
        found = _recall(encoder, photos, rows) if photos else None
        figures.append(ScorerFigures(name, rates, spent, found))
        progress("recall", len(figures), len(encoders))
    return PrecisionFigures(plan.model, plan.images, figures)


def _take_turns(
    plan: PrecisionPlan, encoders: dict[str, ImageEncoder], progress: Progress
) -> dict[str, list[tuple[float, float]]]:
    """Scorer → seconds, and seconds of processor time, of each turn after one that is not counted.

    A busy or slow machine is so to all alike.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in encoders}
    for turn in range(-1, plan.turns):
        for number, (name, encoder) in enumerate(encoders.items(), 1):
            start, before = time.perf_counter(), time.process_time()
            for _ in encoder.batches(range(plan.images)):
                pass
            if turn >= 0:
                spent = time.process_time() - before
                times[name].append((time.perf_counter() - start, spent))
            progress("turns", (turn + 1) * len(encoders) + number, (plan.turns + 1) * len(encoders))
    return times


def _recall(encoder: ImageEncoder, photos: Sequence[CaptionedPhoto], rows: Sequence[int]) -> Recall:
    """Of captions among their photos, with the impacts of an index with the default settings.

    Args:
        encoder: of one scorer.
        photos: in the order of ids.
        rows: of the store, the photos'.
    """
    images = TermScoreMatrix.of(encoder, rows)
    asked = asked_terms(encoder, DEFAULT.asked, DEFAULT.asked_power)
    offset = estimate_offsets(images.scored.scores, DEFAULT.offset)
    pruned = PrunedIndex(images, DEFAULT, offset, asked)
    queries = CaptionQueries.of(encoder.tokenizer, photos, [photo.image_id for photo in photos])
    weights, _ = pruned.weights(queries.terms)
    return queries.rank(pruned.quantised(weights, USUAL.bits)).recall

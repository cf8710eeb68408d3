"""Measure the command on photos, then each of its stages, then a CLIP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench.photos import stages
from eval.bench.photos.end_to_end import features_of, index_photos
from eval.bench.photos.inputs import PhotoSet
from eval.bench.photos.photo_speed import MeasuredSet, PhotoSpeed, Rate
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress

INDEXED = 20_000  # images, in the measurement of indexing alone


@dataclass(frozen=True)
class PhotoPlan:
    """What is measured.

    Attributes:
        sets: of photos.
        model: folder or name.
        cores: that this process may use.
        work: empty folder for temporary files.
        top_n: terms an image keeps, None for the command's default.
    """

    sets: Sequence[PhotoSet]
    model: str
    cores: int
    work: Path
    top_n: str | None = None


def measure_photos(plan: PhotoPlan, progress: Progress = no_progress) -> PhotoSpeed:
    """Measure everything; progress of the stage "measure", in figures.

    Raises:
        InputError: if the command fails.
    """
    measured: list[MeasuredSet] = []
    rates: list[Rate] = []
    total = 3 * len(plan.sets) + 7

    def report() -> None:
        progress("measure", len(measured) + len(rates), total)

    report()
    for number, photos in enumerate(plan.sets):
        whole = index_photos(photos, plan.model, plan.work / f"{number}", plan.top_n)
        measured.append(MeasuredSet(photos.name, photos.megabytes, whole))
        report()
    for rate in _rates(plan):
        rates.append(rate)
        report()
    progress("measure", total, total)  # not every backbone has a form in torch
    return PhotoSpeed(plan.model, plan.cores, measured, rates)


def _rates(plan: PhotoPlan) -> Iterator[Rate]:
    index = plan.work / "0"
    store = FeatureStore.open(features_of(index))
    for photos in plan.sets:
        yield stages.decoding(photos, store.source, plan.cores)
    yield from stages.backbone(plan.sets[0], store.source)
    yield from stages.transformer(store, plan.model)
    yield from stages.indexing(index, store, plan.model, INDEXED, plan.work)
    yield from stages.clip(plan.sets, plan.cores)

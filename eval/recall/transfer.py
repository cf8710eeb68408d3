"""Recall of models on data sets they were not trained on (VisualSparta, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from eval.recall.model import EvaluatedModel, ModelRecall, measure_model_recall, open_members
from eval.recall.photos import choose, missing_in
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.progress import Progress, no_progress


class DataSet(NamedTuple):
    """Photos with captions, their features, and how to read and measure them."""

    features: Path
    captions: Path
    split: str
    protocol: str


class OpenedSet(NamedTuple):
    """A data set, and the models to measure on it."""

    own: DataSet
    members: list[EvaluatedModel]  # with the features of the data set
    folds: list[list[CaptionedPhoto]]  # of its protocol
    missing: set[str]  # photos that its features lack


@dataclass(frozen=True)
class Transfer:
    """Recall of each model on each data set."""

    found: Sequence[tuple[DataSet, ModelRecall]]  # by data set, then model

    def record(self) -> dict[str, Any]:
        """The figures for programs, one row a model and data set."""
        return {"rows": [{"data_set": own._asdict()} | one.record() for own, one in self.found]}

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table(caption="R@1 / R@5 / R@10, median rank")
        for column in ("model", "data set", "text → image", "image → text"):
            table.add_column(column, overflow="fold")
        for own, one in self.found:
            ways = one.found.text_to_image, one.found.image_to_text
            name = f"{own.captions}, {own.split}"
            if one.found.missing:
                name += f", {one.found.name}"
            table.add_row(one.members[0].model.name, name, *map(str, ways))
        return table


def data_sets(
    features: Sequence[Path], captions: Sequence[Path], split: str, protocol: str
) -> list[DataSet]:
    """Combine the options of each data set, which are in the same order.

    Args:
        features: one for each.
        captions: one for each; at least two.
        split: one for all, or one for each with commas between.
        protocol: likewise.

    Raises:
        InputError: if there are fewer than two data sets, or the counts do not fit.
    """
    count = len(captions)
    if count < 2:
        raise InputError("--captions: give two data sets or more, each with its --features")
    if len(features) != count:
        raise InputError(
            f"{len(features)} --features for {count} --captions: give one of each for every data "
            "set, in the same order"
        )
    texts = (split, protocol)
    for option, text in zip(("--split", "--protocol"), texts, strict=True):
        if (given := len(text.split(","))) not in (1, count):
            raise InputError(
                f"{option} {text}: {given} values for {count} data sets; give one for all, or "
                "one for each in the same order"
            )
    each = (text.split(",") * count for text in texts)
    return [DataSet(*parts) for parts in zip(features, captions, *each, strict=False)]


def open_set(own: DataSet, models: Sequence[str], device: str, allow_missing: bool) -> OpenedSet:
    """Open models and a data set.

    Raises:
        InputError: if a model, store or captions file cannot be used, features differ from those a
            model was trained on, or photos are missing.
    """
    folds = choose(own.protocol, read_captions(own.captions, own.split))
    members = open_members(models, [own.features], False, device)
    ids = [photo.image_id for fold in folds for photo in fold]
    missing = missing_in((one.store for one in members), ids, allow_missing)
    return OpenedSet(own, members, folds, missing)


def measure_transfer(
    sets: Sequence[OpenedSet], batch_size: int, progress: Progress = no_progress
) -> Transfer:
    """Measure each model by itself on each data set.

    Args:
        sets: all opened before the first measurement, so that errors appear at once.
        batch_size: images per pass.
        progress: of the stages "texts", "images" and "rank", anew for each measurement.
    """
    found = []
    for own, members, folds, missing in sets:
        for one in members:
            part = measure_model_recall(
                [one], own.protocol, folds, batch_size, progress=progress, missing=missing
            )
            found.append((own, part))
    return Transfer(found)

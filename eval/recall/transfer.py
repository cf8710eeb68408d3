"""Recall of models on data sets they were not trained on (VisualSparta, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from eval.recall.model import (
    EvaluatedModel,
    ModelRecall,
    measure_model_recall,
    open_members,
    without_missing,
)
from eval.recall.protocols import choose
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.progress import Progress, no_progress


@dataclass(frozen=True)
class DataSet:
    """Photos with captions, and their features.

    Attributes:
        features: feature store, or photos for a model with a vision network inside.
        captions: as `sparta.captions.read` reads them.
        split: of the photos to measure.
        protocol: one of `eval.recall.protocols.PROTOCOLS` that takes no list of images.
    """

    features: Path
    captions: Path
    split: str
    protocol: str

    def record(self) -> dict[str, str]:
        """The data set as JSON values."""
        return {name: str(value) for name, value in vars(self).items()}


class Opened(NamedTuple):
    """A data set, and a model to measure on it.

    Attributes:
        own: the data set.
        member: the model with its features.
        folds: of the protocol.
        missing: photos that these lack.
    """

    own: DataSet
    member: EvaluatedModel
    folds: list[list[CaptionedPhoto]]
    missing: int


@dataclass(frozen=True)
class Transfer:
    """Recall of each model on each data set.

    Attributes:
        found: the data sets' results one after another, in each the models in their order.
    """

    found: Sequence[tuple[DataSet, ModelRecall]]

    def record(self) -> dict[str, Any]:
        """The figures for programs, one row a model and data set."""
        return {"rows": [{"data_set": own.record()} | one.record() for own, one in self.found]}

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table()
        for column in ("model", "data set", "text → image", "image → text"):
            table.add_column(column, overflow="fold")
        for data_set, one in self.found:
            ways = one.found.text_to_image, one.found.image_to_text
            name = f"{data_set.captions}, {data_set.split}"
            if one.found.missing:
                name += f", {one.found.name}"
            table.add_row(one.members[0].model.name, name, *map(str, ways))
        table.caption = "R@1 / R@5 / R@10, median rank"
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
        InputError: if there are fewer than two data sets, the counts do not fit, or an image key
            is neither "file" nor "cocoid".
    """
    count = len(captions)
    if count < 2:
        raise InputError("--captions: give two data sets or more, each with its --features")
    if len(features) != count:
        raise InputError(
            f"{len(features)} --features for {count} --captions: give one of each for every data "
            "set, in the same order"
        )
    splits = _one_each("--split", split, count)
    protocols = _one_each("--protocol", protocol, count)
    return [DataSet(*parts) for parts in zip(features, captions, splits, protocols, strict=True)]


def _one_each(option: str, text: str, count: int) -> list[str]:
    values = text.split(",")
    if len(values) not in (1, count):
        raise InputError(
            f"{option} {text}: {len(values)} values for {count} data sets; give one for all, or "
            "one for each in the same order"
        )
    return values * (count // len(values))


def measure_transfer(
    opened: Sequence[Opened], batch_size: int, progress: Progress = no_progress
) -> Transfer:
    """Measure each model by itself on each data set.

    Args:
        opened: by `open_sets`.
        batch_size: images per pass.
        progress: of the stages "texts", "images" and "rank", anew for each measurement.
    """
    return Transfer(
        [
            (
                one.own,
                measure_model_recall(
                    [one.member],
                    one.own.protocol,
                    one.folds,
                    batch_size,
                    progress=progress,
                    missing=one.missing,
                ),
            )
            for one in opened
        ]
    )


def open_sets(
    models: Sequence[str], sets: Sequence[DataSet], device: str, allow_missing: bool
) -> list[Opened]:
    """Open everything before the first measurement, so that errors appear at once.

    Args:
        models: folders or hub names.
        sets: at least one.
        device: "auto" takes a GPU if there is one.
        allow_missing: leave out photos that a data set's features lack.

    Returns:
        the data sets one after another, in each the models in their order.

    Raises:
        InputError: if a model, store or captions file cannot be used, features differ from those a
            model was trained on, or photos are missing.
    """
    opened: list[Opened] = []
    for own in sets:
        folds = choose(own.protocol, read_captions(own.captions, own.split))
        members = open_members(models, [own.features], False, device)
        kept, missing = without_missing(folds, members, allow_missing)
        opened += [Opened(own, member, kept, missing) for member in members]
    return opened

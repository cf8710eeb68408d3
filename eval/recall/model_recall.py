"""Recall of models by a protocol: open models and features, encode, rank."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from eval.progress_parts import part_of
from eval.recall.bidirectional import ProtocolRecall, measure_recall
from eval.recall.caption_prior import CaptionPosterior, ReferenceImages
from eval.recall.images import Images
from eval.recall.models import Model, check_features, open_images, open_model
from eval.recall.score_matrix import MeanScores, Scores
from indexer.encoding.models import model_fingerprint
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.extract.networks.backbone import pick_device
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.vse.photo_folder import PhotoFolder


@dataclass(frozen=True)
class EvaluatedModel:
    """A model and the features it is measured on.

    Attributes:
        model: opened.
        store: of its features, or the photos it takes.
        differences: between these features and those it was trained on.
    """

    model: Model
    store: FeatureStore | PhotoFolder
    differences: list[str]

    def record(self) -> dict[str, Any]:
        """The model and its features as JSON values."""
        return {
            "model": self.model.name,
            "fingerprint": model_fingerprint(self.model.model),
            "features": str(self.store.folder),
            "features_fingerprint": getattr(self.store, "fingerprint", None),
            "other_features_than_trained_on": self.differences,
        }


@dataclass(frozen=True)
class ModelRecall:
    """Recall of a model or an ensemble.

    Attributes:
        members: several form an ensemble.
        found: the recall.
        seconds: for encoding and ranking.
    """

    members: Sequence[EvaluatedModel]
    found: ProtocolRecall
    seconds: float

    def record(self) -> dict[str, Any]:
        """The figures and members as JSON values."""
        members = [member.record() for member in self.members]
        return self.found.record() | {"models": members, "seconds": self.seconds}

    def table(self) -> Table:
        """The figures as a table, with a note if features differ from those of the training."""
        table = self.found.table()
        for member in self.members:
            if member.differences:
                differences = "; ".join(member.differences)
                table.caption = f"{table.caption}\n{member.model.name}, transferred: {differences}"
        return table


def open_members(
    models: Sequence[str], features: Sequence[Path], transfer: bool, device: str
) -> list[EvaluatedModel]:
    """Open models and their features.

    Args:
        models: folders or hub names.
        features: feature stores, or photos for models with a vision network inside; one for each
            model or one for all.
        transfer: accept features that a model was not trained on.
        device: "auto" takes a GPU if there is one.

    Raises:
        InputError: if the counts do not fit, or a model or store cannot be used.
    """
    if len(features) not in (1, len(models)):
        raise InputError(
            f"{len(features)} --features for {len(models)} models: give one feature store for "
            "all, or one for each in the same order"
        )
    folders = [*features] * (len(models) // len(features))
    chosen = pick_device(device)
    members = []
    for name, folder in zip(models, folders, strict=True):
        model = open_model(name, chosen)
        store = open_images(model, folder)
        members.append(EvaluatedModel(model, store, check_features(model, store, transfer)))
    return members


def measure_model_recall(
    members: Sequence[EvaluatedModel],
    protocol: str,
    folds: Sequence[Sequence[CaptionedPhoto]],
    batch_size: int,
    reference: ReferenceImages | None = None,
    progress: Progress = no_progress,
) -> ModelRecall:
    """Measure a model, or an ensemble by the mean of its members' scores.

    Args:
        members: at least one.
        protocol: name of the protocol that chose the folds.
        folds: of `eval.recall.protocols.choose`.
        batch_size: images per pass.
        reference: images for `caption_prior`, which compares captions by P(image | caption);
            None compares the scores.
        progress: of the stages "texts", "images" and "rank".

    Raises:
        InputError: if a store lacks a photo.
    """
    start = time.perf_counter()
    photos = [photo for fold in folds for photo in fold]
    texts = [text for photo in photos for text in photo.captions]
    ids = [photo.image_id for photo in photos]
    scores = [
        _scores(member, texts, ids, reference, batch_size, part_of(number, len(members), progress))
        for number, member in enumerate(members)
    ]
    found = measure_recall(protocol, folds, MeanScores(scores), progress)
    return ModelRecall(members, found, time.perf_counter() - start)


def _scores(
    member: EvaluatedModel,
    texts: Sequence[str],
    image_ids: Sequence[str],
    reference: ReferenceImages | None,
    batch_size: int,
    progress: Progress,
) -> Scores:
    """Scores of one member, texts × images."""
    others = reference.image_ids if reference else []
    images = Images.of(member.store, [*image_ids, *others])
    scores = member.model.scores(texts, images, batch_size, progress)
    if reference is None:
        return scores
    every, own = slice(None), slice(len(image_ids))
    rest = slice(len(image_ids), None)
    return CaptionPosterior.of(
        scores.select(every, own), scores.select(every, rest), reference.temperature
    )

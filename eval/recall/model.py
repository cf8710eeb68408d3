"""Recall of models, sparse and dense, alone and averaged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from eval.recall.protocols import Images
from eval.recall.scores import (
    CaptionPosterior,
    DenseScores,
    MeanScores,
    ProtocolRecall,
    ReferenceImages,
    Scores,
    SparseScores,
    check_memory,
    measure_recall,
    part_of,
)
from indexer.encoding.models import load_models, model_fingerprint
from indexer.manifest import is_index
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.extract.networks.backbone import pick_device
from sparta.features.record import FeatureSource
from sparta.features.store import HEADER, FeatureStore
from sparta.model_id import pinned_name, read_model_config
from sparta.progress import Progress, no_progress
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_images
from sparta.vse.config import VseConfig
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder

TEXTS = 1024  # encoded between two steps of a progress bar


@dataclass(frozen=True)
class DenseModel:
    """A model that maps texts and images to vectors.

    Attributes:
        name: folder or hub name.
        model: in eval mode, on its device.
    """

    name: str
    model: VseModel

    def scores(
        self, texts: Sequence[str], images: Images, batch_size: int, progress: Progress
    ) -> Scores:
        """Encode T texts and N images; stages "images" and "texts"."""
        return DenseScores(
            self.embed_texts(texts, progress), self.embed_images(images, batch_size, progress)
        )

    def embed_texts(self, texts: Sequence[str], progress: Progress) -> Tensor:
        """[T, D] float32 on the model's device; equal texts get equal vectors, to the last bit."""
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        distinct, parts = list(places), []
        for start in range(0, len(distinct), TEXTS):
            parts.append(self.model.embed_texts(distinct[start : start + TEXTS]))
            progress("texts", min(start + TEXTS, len(distinct)), len(distinct))
        return torch.cat(parts)[[places[text] for text in texts]].to(self.model.device)

    @torch.no_grad()
    def embed_images(self, images: Images, batch_size: int, progress: Progress) -> Tensor:
        """[N, K, D] float32 on the model's device."""
        config, device = self.model.config, self.model.device
        found = torch.empty(len(images), config.views, config.dimension, device=device)
        for place, batch in images.batches(batch_size, progress):
            seen = collate_images(batch, config.max_regions).to(device)
            found[place] = self.model.encode_images(seen)
        return found


@dataclass(frozen=True)
class SparseModel:
    """A VisualSparta: term scores in floating point, not pruned.

    A longer caption sums more terms and scores higher for every image. That does not affect text →
    image, for which the model was trained; in image → text, long captions come first for every
    image unless `CaptionPosterior` corrects for it.

    Attributes:
        name: folder or hub name.
        model: in eval mode, on its device.
        tokenizer: the model's.
    """

    name: str
    model: VisualSparta
    tokenizer: Tokenizer

    def scores(
        self, texts: Sequence[str], images: Images, batch_size: int, progress: Progress
    ) -> Scores:
        """As `DenseModel.scores`; only the texts' terms are computed.

        Raises:
            InputError: if the term scores would not fit in memory.
        """
        ids = [self.tokenizer.encode_ids(text) for text in texts]
        distinct = len(set(texts))
        progress("texts", distinct, distinct)
        used = sorted({term for text in ids for term in text})
        check_memory(len(images), len(used))
        device, config = self.model.device, self.model.config
        wanted = torch.zeros(len(self.tokenizer.vocabulary), dtype=torch.bool, device=device)
        wanted[used] = True
        weights = torch.empty(len(used), len(images), device=device)
        collate = ImageCollator.of(self.tokenizer, config)
        for place, batch in images.batches(batch_size, progress):
            weights[:, place] = self.model.term_scores(collate(batch), wanted).scores[:, used].T
        places = {term: place for place, term in enumerate(used)}
        return SparseScores.of([[places[term] for term in text] for text in ids], weights)


Model = DenseModel | SparseModel


def open_model(name: str, device: torch.device) -> Model:
    """Load a model folder, a hub name or "sample".

    Raises:
        InputError: if it is neither a VSE model nor a VisualSparta, or cannot be used.
    """
    kind, name = _kind(name), pinned_name(name)
    if kind == VseConfig.model_type:
        dense = VseModel.from_pretrained(name)
        if dense.tokenizer is None:
            raise InputError(f"{name} has no tokenizer.json: a model folder needs one")
        dense.to(device)  # type: ignore[arg-type]
        return DenseModel(name, dense)
    (sparse,), tokenizer = load_models([name], device)
    return SparseModel(name, sparse, tokenizer)


def _kind(name: str) -> str:
    known = (VseConfig.model_type, VisualSpartaConfig.model_type)
    if is_index(Path(name)):
        raise InputError(f"{name} is an index: measure it with sparta eval index")
    return str(read_model_config(name, known, "model")["model_type"])


def open_images(model: Model, folder: Path) -> FeatureStore | PhotoFolder:
    """Open a model's input: a feature store, or photos for a model with a vision network inside.

    Raises:
        InputError: if the folder is neither, or not the input the model takes.
    """
    config = model.model.config
    if isinstance(model, SparseModel) or config.vision is None:
        return FeatureStore.open(folder)
    if (folder / HEADER).is_file():
        raise InputError(f"{folder} is a feature store; {model.name} takes a folder of photos")
    return PhotoFolder(folder, FeatureSource(**config.feature_source))


def check_features(model: Model, store: FeatureStore | PhotoFolder, transfer: bool) -> list[str]:
    """Compare a store with the features a model was trained on; any photos are accepted.

    Args:
        model: to measure.
        store: its input.
        transfer: accept other features of the same dimension.

    Returns:
        the differences (the model's against the store's), [] without `transfer`.

    Raises:
        InputError: if the dimensions differ, or anything else does without `transfer`.
    """
    config = model.model.config
    if isinstance(store, PhotoFolder):
        return []
    if store.source.dimension != config.feature_dim:
        raise InputError(
            f"{store.folder} has features of dimension {store.source.dimension}, "
            f"{model.name} takes {config.feature_dim}"
        )
    if config.feature_source is None:
        return []
    wanted, found = FeatureSource(**config.feature_source), store.source
    if isinstance(model, SparseModel) and model.model.head is not None:
        # The score is that of the whole photo, whatever the cells that explain it.
        wanted, found = _without_grid(wanted), _without_grid(found)
    differences = wanted.differences(found)
    if differences and not transfer:
        raise InputError(
            f"{store.folder} has other features than {model.name} was trained on (the model's "
            f"against the store's): {'; '.join(differences)}. Give --transfer to measure the model "
            "on them nevertheless"
        )
    return differences


def _without_grid(source: FeatureSource) -> FeatureSource:
    return replace(source, extra={k: v for k, v in source.extra.items() if k != "grid"})


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
        reference: images for `CaptionPosterior`, which compares captions by P(image | caption);
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

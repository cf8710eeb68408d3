"""From a configuration to the pieces of a run: photos, model, data loaders."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset
from transformers import BertConfig

from sparta.errors import InputError
from sparta.features.batch import ImageCollator
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.views import extract_views
from sparta.model import TermCounts, VisualSparta, count_terms, pad_ids
from sparta.oscar import from_oscar
from sparta.weights import from_bert, from_config
from training.config import ModelConfig, TrainConfig
from training.data.captions import CaptionedPhoto, read_captions
from training.data.dataset import CaptionedFeatures, EpochSampler, Example, TrainingCollator
from training.loop import SpartaTraining
from training.module import TrainingModule
from training.run_config import PhotosConfig
from training.vocabulary import learn_vocabulary

log = logging.getLogger(__name__)

OSCAR = "oscar:"  # before the folder of a checkpoint to start from


class Part(NamedTuple):
    """One process's part of a run: which of `world` processes, and the epoch it begins with."""

    rank: int
    world: int
    epoch: int


class Run(NamedTuple):
    """What a trainer is given; no validation loader where nothing is held out."""

    module: TrainingModule
    training: DataLoader[Any]
    validation: DataLoader[Any] | None


def prepare_sparta(
    config: TrainConfig,
    views: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: Part,
) -> Run:
    """Put a VisualSparta run together.

    Raises:
        InputError: if the model cannot be built as asked, or the batch does not fit.
    """
    model = build_model(config.model, views[0].source, photos)
    mark_trained_terms(model, caption_ids(model, photos))
    queries = validation_queries(model, held_out) if held_out else None
    return Run(
        SpartaTraining(model, config, queries),
        training_loader(config, views, photos, model, *part),
        validation_loader(config, views[0], held_out, model) if held_out else None,
    )


def open_views(config: PhotosConfig, out: Path) -> list[FeatureStore]:
    """Open the run's feature stores, or extract them from its photos into `out/features`.

    Raises:
        InputError: if neither or both are named, or the stores come from different sources.
    """
    if config.photos is not None and not config.features:
        if config.backbone is None:
            raise InputError("data.backbone: name what turns data.photos into features")
        return extract_views(config.photos, out / "features", config.backbone, config.views)
    if config.photos is not None or not config.features:
        raise InputError(
            "data.features: name feature stores (--set data.features=[DIR]), or else data.photos "
            "and data.backbone"
        )
    views = [FeatureStore.open(folder) for folder in config.features]
    for view in views[1:]:
        if different := views[0].source.differences(view.source):
            raise InputError(f"{view.folder} is no view of {views[0].folder}: {different[0]}")
    return views


class Images(Protocol):
    """Images by id, as features or as photos."""

    @property
    def ids(self) -> Sequence[str]: ...  # noqa: D102


def split_photos(
    config: PhotosConfig, views: Sequence[Images], seed: int
) -> tuple[list[CaptionedPhoto], list[CaptionedPhoto]]:
    """Photos to train on and photos to choose by, each sorted by id and present in every view.

    Raises:
        InputError: if no captions are named, nothing is left to train on, or captions and
            features speak of different photos.
    """
    if config.captions is None:
        raise InputError("data.captions: name a captions.jsonl (--set data.captions=FILE)")
    read = partial(read_captions, config.captions, image_key=config.image_key)
    photos = sorted(read(config.split), key=lambda p: p.image_id)
    held_out: list[CaptionedPhoto] = []
    if config.validation_split:
        held_out = read(config.validation_split)
    elif config.validation_photos:
        if config.validation_photos >= len(photos):
            raise InputError(
                f"data.validation_photos: holding out {config.validation_photos} of "
                f"{len(photos)} photos leaves none to train on"
            )
        order = np.random.default_rng(seed).permutation(len(photos))
        chosen = set(order[: config.validation_photos].tolist())
        held_out = [p for i, p in enumerate(photos) if i in chosen]
        photos = [p for i, p in enumerate(photos) if i not in chosen]
    return _present(photos, views), _present(held_out, views)


def _present(photos: list[CaptionedPhoto], views: Sequence[Images]) -> list[CaptionedPhoto]:
    known = set.intersection(*(set(view.ids) for view in views))
    kept = sorted((p for p in photos if p.image_id in known), key=lambda p: p.image_id)
    if photos and not kept:
        raise InputError(
            f"no captioned photo is in the feature store: captions speak of "
            f"{photos[0].image_id!r}, the store holds {views[0].ids[0]!r}"
        )
    if missing := len(photos) - len(kept):
        log.warning("%d of %d captioned photos have no features: left out", missing, len(photos))
    return kept


def build_model(
    config: ModelConfig, source: FeatureSource, photos: Sequence[CaptionedPhoto]
) -> VisualSparta:
    """The network at the start: from a checkpoint of Oscar's or of a BERT, or from nothing.

    Raises:
        InputError: if the checkpoint is not what it is said to be, or a field or option is unknown.
    """
    if config.init is not None and config.init.startswith(OSCAR):
        folder = config.init.removeprefix(OSCAR)
        return from_oscar(folder, source, config.layers, **config.options)
    if config.init is not None:
        return from_bert(config.init, source, config.layers, **config.options)
    texts = (text for photo in photos for text in photo.captions)
    tokenizer = learn_vocabulary(texts, config.vocabulary_size)
    if unknown := sorted(config.encoder.keys() - BertConfig().to_dict().keys()):
        raise InputError(f"model.encoder: BertConfig has no fields {unknown}")
    encoder = BertConfig(**{**config.encoder, "vocab_size": len(tokenizer.vocabulary)})
    return from_config(encoder, tokenizer, source, **config.options)


def caption_ids(model: VisualSparta, photos: Sequence[CaptionedPhoto]) -> list[list[list[int]]]:
    """Term ids of every caption of every photo."""
    assert model.tokenizer is not None
    return [[model.tokenizer.encode_ids(text) for text in photo.captions] for photo in photos]


def mark_trained_terms(model: VisualSparta, captions: Sequence[list[list[int]]]) -> None:
    """Record in the model which terms its training captions hold."""
    seen = {term for texts in captions for text in texts for term in text}
    model.trained_terms.zero_()
    model.trained_terms[sorted(seen)] = True


def validation_queries(
    model: VisualSparta, photos: Sequence[CaptionedPhoto]
) -> tuple[TermCounts, Tensor]:
    """Captions of the held-out photos, and the column of each one's own photo [Q] int64."""
    texts = caption_ids(model, photos)
    queries = count_terms(*pad_ids((ids for photo in texts for ids in photo), "cpu"))
    return queries, torch.tensor([i for i, photo in enumerate(texts) for _ in photo])


def training_loader(
    config: TrainConfig,
    views: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    model: VisualSparta,
    rank: int,
    world: int,
    epoch: int = 0,
) -> DataLoader[Example]:
    """Batches of photos with captions for one of `world` processes, from an epoch on.

    Raises:
        InputError: if the batch cannot be shared out, or is larger than the data.
    """
    if config.batch_size % world or config.batch_size > len(photos):
        raise InputError(
            f"batch_size: {config.batch_size} must be a multiple of {world} devices and at most "
            f"the {len(photos)} training photos"
        )
    sampler = EpochSampler(len(photos), config.seed, rank, world)
    # Loader processes ask for the first photos before the trainer tells the sampler its epoch.
    sampler.set_epoch(epoch)
    data = config.data
    dataset = CaptionedFeatures(
        views,
        [photo.image_id for photo in photos],
        caption_ids(model, photos),
        config.seed,
        data.captions_per_photo,
        data.word_dropout,
        data.region_dropout,
    )
    return DataLoader(
        dataset,
        batch_size=config.batch_size // world,
        sampler=sampler,
        collate_fn=TrainingCollator(_image_collator(model)),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        drop_last=True,
        pin_memory=torch.cuda.is_available(),
    )


def validation_loader(
    config: TrainConfig, view: FeatureStore, photos: Sequence[CaptionedPhoto], model: VisualSparta
) -> DataLoader[ImageFeatures]:
    """The held-out photos in order, as the first view shows them."""
    rows = [view.index(photo.image_id) for photo in photos]
    return DataLoader(
        Subset(view, rows),  # type: ignore[arg-type]  # a store has all that a Dataset needs
        batch_size=64,
        collate_fn=_image_collator(model),
        num_workers=min(config.workers, 2),
        persistent_workers=config.workers > 0,
    )


def _image_collator(model: VisualSparta) -> ImageCollator:
    assert model.tokenizer is not None
    return ImageCollator.of(model.tokenizer, model.config)

"""From a configuration to the pieces of a dense model's run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.vse.batch import TextBatch, collate_images, collate_texts
from sparta.vse.init import from_bert, from_captions
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder
from training.run import ProcessPart, Run
from training.vse.config import VseModelConfig, VseTrainConfig
from training.vse.lightning_module import VseTraining
from training.vse.pairs import CaptionedRegions, PairCollator, PairSampler, TrainingPair
from training.vse.photos import CaptionedPhotos


def prepare_vse(
    config: VseTrainConfig,
    images: Sequence[FeatureStore] | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: ProcessPart,
) -> Run:
    """Put a dense model's run together.

    Args:
        config: the run.
        images: views of the photos' features, or the photos for a model with a vision network.
        photos: to train on.
        held_out: to choose the best weights by.
        part: this process's.

    Raises:
        InputError: if the model cannot be built as asked, or the batch does not fit.
    """
    first = images if isinstance(images, PhotoFolder) else images[0]
    if config.augmentation.photos != "none" and not isinstance(images, PhotoFolder):
        raise InputError(
            "augmentation.photos is for a model that sees photos: model.options.vision"
        )
    model = build_model(config.model, first.source, photos)
    return Run(
        VseTraining(model, config, validation_texts(model, held_out) if held_out else None),
        training_loader(config, images, photos, model, part),
        validation_loader(config, first, held_out, model) if held_out else None,
    )


def build_model(
    config: VseModelConfig, source: FeatureSource, photos: Sequence[CaptionedPhoto]
) -> VseModel:
    """The network at the start: over a BERT-like checkpoint, or over words of the captions.

    Raises:
        InputError: if the checkpoint is not BERT-like, or an option is unknown.
    """
    if config.init is not None:
        return from_bert(config.init, source, layers=config.layers, **config.options)
    texts = [text for photo in photos for text in photo.captions]
    return from_captions(texts, source, min_count=config.min_count, **config.options)


def validation_texts(model: VseModel, photos: Sequence[CaptionedPhoto]) -> tuple[TextBatch, Tensor]:
    """Captions of the held-out photos, and the position of each one's own photo [Q] int64."""
    assert model.tokenizer is not None
    ids = [model.tokenizer.encode(text) for photo in photos for text in photo.captions]
    targets = torch.tensor([i for i, photo in enumerate(photos) for _ in photo.captions])
    return collate_texts(ids, model.tokenizer.pad_id), targets


def training_loader(
    config: VseTrainConfig,
    images: Sequence[FeatureStore] | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    model: VseModel,
    part: ProcessPart,
) -> DataLoader[TrainingPair]:
    """Batches of pairs for one process, from an epoch on.

    Raises:
        InputError: if the batch cannot be shared out, or is larger than the data.
    """
    assert model.tokenizer is not None
    captions = [photo.captions for photo in photos]
    pairs = sum(map(len, captions))
    if config.batch_size % part.world or config.batch_size > pairs:
        raise InputError(
            f"batch_size: {config.batch_size} must be a multiple of {part.world} devices and at "
            f"most the {pairs} training pairs"
        )
    sampler = PairSampler([len(texts) for texts in captions], config.seed, part.rank, part.world)
    # Loader processes ask for the first pairs before the trainer tells the sampler its epoch.
    sampler.set_epoch(part.epoch)
    ids = [photo.image_id for photo in photos]
    drawn = (model.tokenizer, config.seed, config.augmentation)
    pairs_of: Dataset[TrainingPair] = (
        CaptionedPhotos(images, ids, captions, *drawn)
        if isinstance(images, PhotoFolder)
        else CaptionedRegions(images, ids, captions, *drawn)
    )
    return DataLoader(
        pairs_of,
        batch_size=config.batch_size // part.world,
        sampler=sampler,
        collate_fn=PairCollator(model.tokenizer.pad_id, model.config.max_regions),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        drop_last=True,
        pin_memory=torch.cuda.is_available(),
    )


def validation_loader(
    config: VseTrainConfig,
    view: FeatureStore | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    model: VseModel,
) -> DataLoader[Any]:
    """The held-out photos in order, as the first view shows them."""
    rows = [view.index(photo.image_id) for photo in photos]
    return DataLoader(
        Subset(view, rows),  # type: ignore[arg-type]  # a store has all that a Dataset needs
        batch_size=64,
        collate_fn=partial(collate_images, max_regions=model.config.max_regions),
        num_workers=min(config.workers, 2),
        persistent_workers=config.workers > 0,
    )

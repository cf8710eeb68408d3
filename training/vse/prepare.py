"""Preparing a run of a dense model: model, data loaders and validation captions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.text_encoder import encoder_config
from sparta.vse.batch import TextBatch, collate_images, collate_texts
from sparta.vse.init import check_options, from_bert, from_captions
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder
from training.module import (
    PairSampler,
    ProcessPart,
    Run,
    batches,
    check_batch_size,
    validation_batches,
)
from training.vse.config import VseModelConfig, VseTrainConfig
from training.vse.lightning_module import VseTraining
from training.vse.pairs import CaptionedRegions, PairCollator, TrainingPair
from training.vse.photos import CaptionedPhotos


def prepare_vse(
    config: VseTrainConfig,
    images: Sequence[FeatureStore] | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: ProcessPart,
) -> Run:
    """Prepare a run of a dense model.

    Args:
        config: settings of the run.
        images: feature stores of the same photos, or the photos themselves for a model with a
            vision network.
        photos: to train on.
        held_out: to choose the best weights by; may be empty.
        part: this process's part of the run.

    Raises:
        InputError: if a model setting is wrong, or the batch size does not fit.
    """
    first = images if isinstance(images, PhotoFolder) else images[0]
    model = build_model(config.model, first.source, photos)
    collate = partial(collate_images, max_regions=model.config.max_regions)
    return Run(
        VseTraining(model, config, validation_texts(model, held_out) if held_out else None),
        training_loader(config, images, photos, model, part),
        validation_batches(config, first, held_out, collate) if held_out else None,
    )


def check_vse(config: VseTrainConfig, photos: Sequence[CaptionedPhoto]) -> None:
    """Refuse settings of a run that cannot be carried out.

    Raises:
        InputError: if the batch size does not fit the photos, an option is unknown or needs a
            vision network, or the text encoder cannot be used.
    """
    check_batch_size(config.batch_size, sum(len(one.captions) for one in photos), "pairs")
    if config.augmentation.photos != "none" and not config.has_vision_network:
        raise InputError(
            "augmentation.photos is for a model with a vision network: set model.options.vision"
        )
    model = config.model
    check_options(model.options.keys() - {"vision"}, model.init is not None)
    if model.init is not None:
        encoder_config(model.init, model.layers)


def build_model(
    config: VseModelConfig, source: FeatureSource, photos: Sequence[CaptionedPhoto]
) -> VseModel:
    """The initial model: with a BERT-like text encoder, or a BiGRU over words of the captions.

    Raises:
        InputError: if the checkpoint is not BERT-like, or an option is unknown.
    """
    if config.init is not None:
        return from_bert(config.init, source, layers=config.layers, **config.options)
    texts = [text for photo in photos for text in photo.captions]
    return from_captions(texts, source, min_count=config.min_count, **config.options)


def validation_texts(model: VseModel, photos: Sequence[CaptionedPhoto]) -> tuple[TextBatch, Tensor]:
    """Captions of the held-out photos, and the position of each caption's photo [Q] int64."""
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
    """Batches of pairs for one process.

    Raises:
        InputError: if the batch size is no multiple of the processes, or exceeds the pairs.
    """
    assert model.tokenizer is not None
    captions = [photo.captions for photo in photos]
    counts = [len(texts) for texts in captions]
    check_batch_size(config.batch_size, sum(counts), "pairs", part.world)
    ids = [photo.image_id for photo in photos]
    settings = (model.tokenizer, config.seed, config.augmentation)
    dataset: Dataset[TrainingPair] = (
        CaptionedPhotos(images, ids, captions, *settings)
        if isinstance(images, PhotoFolder)
        else CaptionedRegions(images, ids, captions, *settings)
    )
    sampler = PairSampler(counts, config.seed, part.rank, part.world)
    collate = PairCollator(model.tokenizer.pad_id, model.config.max_regions)
    return batches(config, dataset, sampler, collate, part)

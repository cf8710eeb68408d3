"""Preparing a VisualSparta run: model, data loaders and validation queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset
from transformers import BertConfig

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.tokenizer import text_frequencies
from sparta.visualsparta.collate import ImageCollator
from sparta.visualsparta.init_bert import from_bert, from_config
from sparta.visualsparta.init_oscar import from_oscar
from sparta.visualsparta.model import TermCounts, VisualSparta, count_terms, pad_ids
from training.run import ProcessPart, Run
from training.samplers import EpochSampler, PairSampler
from training.teacher.nearest import SentenceDraw
from training.visualsparta.config import VisualSpartaModelConfig, VisualSpartaTrainConfig
from training.visualsparta.dataset import (
    CaptionedFeatures,
    TrainingCollator,
    TrainingExample,
)
from training.visualsparta.lesson import Lesson, lesson_texts, prepare_lesson
from training.visualsparta.lightning_module import VisualSpartaTraining
from training.visualsparta.vocabulary import learn_vocabulary

OSCAR = "oscar:"  # prefix of `model.init` for the folder of an Oscar checkpoint


def prepare_visualsparta(
    config: VisualSpartaTrainConfig,
    stores: Sequence[FeatureStore],
    out: Path,
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
    part: ProcessPart,
) -> Run:
    """Prepare a VisualSparta run.

    Args:
        config: settings of the run.
        stores: features of the photos, and of augmentations of them.
        out: folder of the run, for what a teacher computes.
        photos: to train on.
        held_out: to choose the best weights by; may be empty.
        part: this process's part of the run.

    Raises:
        InputError: if a model setting is wrong, or the batch size does not fit.
    """
    sentences: list[str] = []
    if config.teacher is not None:
        photos, sentences = lesson_texts(config.teacher, photos)
    texts = [*(text for photo in photos for text in photo.captions), *sentences]
    model = build_model(config.model, stores[0].source, texts)
    record_term_frequencies(model, texts)
    queries = validation_queries(model, held_out) if held_out else None
    lesson = Lesson(None, None)
    if config.teacher is not None:
        lesson = prepare_lesson(config, stores, out, photos, sentences, model)
    return Run(
        VisualSpartaTraining(model, config, queries, lesson.teacher),
        training_loader(config, stores, photos, model, part, lesson.draw),
        validation_loader(config, stores[0], held_out, model) if held_out else None,
    )


def build_model(
    config: VisualSpartaModelConfig, source: FeatureSource, texts: Iterable[str]
) -> VisualSparta:
    """The initial model: from an Oscar or BERT checkpoint, or with random weights.

    Args:
        config: of the network.
        source: of the features it reads.
        texts: to learn a vocabulary from, without a checkpoint.

    Raises:
        InputError: if the checkpoint is of another kind, or a field or option is unknown.
    """
    if config.init is not None and config.init.startswith(OSCAR):
        folder = config.init.removeprefix(OSCAR)
        return from_oscar(folder, source, config.layers, **config.options)
    if config.init is not None:
        return from_bert(config.init, source, config.layers, **config.options)
    tokenizer = learn_vocabulary(texts, config.vocabulary_size)
    if unknown := sorted(config.encoder.keys() - BertConfig().to_dict().keys()):
        raise InputError(f"model.encoder: BertConfig has no fields {unknown}")
    encoder = BertConfig(**{**config.encoder, "vocab_size": len(tokenizer.vocabulary)})
    return from_config(encoder, tokenizer, source, **config.options)


def caption_ids(model: VisualSparta, photos: Sequence[CaptionedPhoto]) -> list[list[list[int]]]:
    """Term ids of every caption of every photo."""
    assert model.tokenizer is not None
    return [[model.tokenizer.encode_ids(text) for text in photo.captions] for photo in photos]


def record_term_frequencies(model: VisualSparta, texts: Iterable[str]) -> None:
    """Record in the model how many captions and sentences contain each term, and so which do."""
    assert model.tokenizer is not None
    ids = map(model.tokenizer.encode_ids, texts)
    frequencies = torch.from_numpy(text_frequencies(ids, len(model.term_frequencies)))
    model.term_frequencies.copy_(frequencies)
    model.trained_terms.copy_(frequencies > 0)


def validation_queries(
    model: VisualSparta, photos: Sequence[CaptionedPhoto]
) -> tuple[TermCounts, Tensor]:
    """Captions of the held-out photos, and the position of each caption's photo [Q] int64."""
    texts = caption_ids(model, photos)
    queries = count_terms(*pad_ids((ids for photo in texts for ids in photo), "cpu"))
    return queries, torch.tensor([i for i, photo in enumerate(texts) for _ in photo])


def training_loader(
    config: VisualSpartaTrainConfig,
    stores: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    model: VisualSparta,
    part: ProcessPart,
    sentences: SentenceDraw | None = None,
) -> DataLoader[TrainingExample]:
    """Batches of photos with captions, and with sentences for a teacher, for one process.

    Raises:
        InputError: if the batch size is no multiple of the processes, or exceeds the epoch.
    """
    data = config.data
    counts = [len(photo.captions) for photo in photos]
    examples = sum(counts) if data.epoch == "pairs" else len(counts)
    if config.batch_size % part.world or config.batch_size > examples:
        raise InputError(
            f"batch_size: {config.batch_size} must be a multiple of {part.world} devices and at "
            f"most the {examples} training {data.epoch}"
        )
    sampler: EpochSampler | PairSampler = (
        PairSampler(counts, config.seed, part.rank, part.world)
        if data.epoch == "pairs"
        else EpochSampler(len(photos), config.seed, part.rank, part.world)
    )
    # Loader processes fetch the first photos before the trainer sets the sampler's epoch.
    sampler.set_epoch(part.epoch)
    dataset = CaptionedFeatures(
        stores,
        [photo.image_id for photo in photos],
        caption_ids(model, photos),
        config.seed,
        data.captions_per_photo if any(photo.captions for photo in photos) else 0,
        data.word_dropout,
        data.region_dropout,
        sentences,
    )
    return DataLoader(
        dataset,
        batch_size=config.batch_size // part.world,
        sampler=sampler,
        collate_fn=TrainingCollator(_image_collator(model)),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        drop_last=True,
        pin_memory=torch.cuda.is_available(),
    )


def validation_loader(
    config: VisualSpartaTrainConfig,
    store: FeatureStore,
    photos: Sequence[CaptionedPhoto],
    model: VisualSparta,
) -> DataLoader[ImageFeatures]:
    """Batches of the held-out photos in order, from the first (plain) feature store."""
    rows = [store.index(photo.image_id) for photo in photos]
    return DataLoader(
        Subset(store, rows),  # type: ignore[arg-type]  # a store has the methods of a Dataset
        batch_size=64,
        collate_fn=_image_collator(model),
        num_workers=min(config.workers, 2),
        persistent_workers=config.workers > 0,
    )


def _image_collator(model: VisualSparta) -> ImageCollator:
    assert model.tokenizer is not None
    return ImageCollator.of(model.tokenizer, model.config)

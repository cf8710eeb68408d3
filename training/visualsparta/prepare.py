"""Preparing a VisualSparta run: model, data loaders, validation queries, and a teacher's lesson."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import BertConfig

from sparta.captions.read import CaptionedPhoto
from sparta.console import Console
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.networks.backbone import pick_device
from sparta.progress import progress_bars
from sparta.text_encoder import encoder_config, load_word_pieces
from sparta.tokenizer import text_frequencies
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.init import (
    check_options,
    from_bert,
    from_config,
    from_oscar,
    read_oscar_config,
)
from sparta.visualsparta.model import TermCounts, VisualSparta, count_terms, pad_ids
from training.module import (
    EpochSampler,
    PairSampler,
    ProcessPart,
    Run,
    batches,
    check_batch_size,
    validation_batches,
)
from training.teacher.similarities import SentenceDraw, Teacher, pool_sentences, read_sentences
from training.teacher.teachers import (
    STAGES,
    TeacherInputs,
    check_teachers,
    find_nearest,
    open_teacher,
    teacher_key,
)
from training.visualsparta.config import (
    TeacherConfig,
    VisualSpartaModelConfig,
    VisualSpartaTrainConfig,
)
from training.visualsparta.dataset import (
    CaptionedFeatures,
    TrainingCollator,
    TrainingExample,
    learn_vocabulary,
)
from training.visualsparta.lightning_module import VisualSpartaTraining

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
    teacher, draw = None, None
    if config.teacher is not None:
        teacher, draw = prepare_lesson(config, stores, out, photos, sentences, model)
    return Run(
        VisualSpartaTraining(model, config, queries, teacher),
        training_loader(config, stores, photos, model, part, draw),
        validation_batches(config, stores[0], held_out, _image_collator(model)),
    )


def check_visualsparta(config: VisualSpartaTrainConfig, photos: Sequence[CaptionedPhoto]) -> None:
    """Refuse settings of a run that cannot be carried out.

    Raises:
        InputError: if the batch size does not fit the photos, an option is unknown, or a
            checkpoint, a teacher or the sentences cannot be used.
    """
    pairs = sum(len(photo.captions) for photo in photos)
    examples = pairs if config.data.epoch == "pairs" else len(photos)
    check_batch_size(config.batch_size, examples, config.data.epoch)
    check_options(config.model.options)
    init = config.model.init
    if init is None:
        _check_encoder_fields(config.model)
    elif init.startswith(OSCAR):
        read_oscar_config(Path(init.removeprefix(OSCAR)))
    else:
        encoder_config(init, config.model.layers)
        load_word_pieces(init)
    if config.teacher is not None:
        lesson_texts(config.teacher, photos)
        check_teachers(config.teacher.models)


def build_model(
    config: VisualSpartaModelConfig, source: FeatureSource, texts: Iterable[str]
) -> VisualSparta:
    """The initial model: from an Oscar or BERT checkpoint, or random, with a vocabulary of texts.

    Raises:
        InputError: if the checkpoint is of another kind, or a field or option is unknown.
    """
    if config.init is not None and config.init.startswith(OSCAR):
        folder = config.init.removeprefix(OSCAR)
        return from_oscar(folder, source, config.layers, **config.options)
    if config.init is not None:
        return from_bert(config.init, source, config.layers, **config.options)
    tokenizer = learn_vocabulary(texts, config.vocabulary_size)
    _check_encoder_fields(config)
    encoder = BertConfig(**{**config.encoder, "vocab_size": len(tokenizer.vocabulary)})
    return from_config(encoder, tokenizer, source, **config.options)


def _check_encoder_fields(config: VisualSpartaModelConfig) -> None:
    if unknown := sorted(config.encoder.keys() - BertConfig().to_dict().keys()):
        raise InputError(f"model.encoder: BertConfig has no fields {unknown}")


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
    """Batches of photos with captions, and with sentences for a teacher; see `batches`."""
    data = config.data
    sampler = EpochSampler(len(photos), config.seed, part.rank, part.world)
    if data.epoch == "pairs":
        counts = [len(photo.captions) for photo in photos]
        sampler = PairSampler(counts, config.seed, part.rank, part.world)
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
    collate = TrainingCollator(_image_collator(model))
    return batches(config, dataset, sampler, collate, part, data.epoch)


def _image_collator(model: VisualSparta) -> ImagePadder:
    assert model.tokenizer is not None
    return ImagePadder.of(model.tokenizer, model.config)


def lesson_texts(
    config: TeacherConfig, photos: Sequence[CaptionedPhoto]
) -> tuple[list[CaptionedPhoto], list[str]]:
    """The training photos with the captions to learn from, and the sentences of the file.

    Raises:
        InputError: if the file cannot be used, or there is neither a caption nor a sentence, or
            none would be drawn.
    """
    kept = [photo if config.captions else replace(photo, captions=()) for photo in photos]
    sentences = [] if config.sentences is None else read_sentences(config.sentences)
    if not any(photo.captions for photo in kept):
        if not sentences:
            raise InputError(
                "teacher.sentences: without captions, give a text file of sentences, one a line "
                "(--sentences FILE)"
            )
        if not config.near_sentences + config.random_sentences:
            raise InputError("teacher.near_sentences: without captions, draw at least one sentence")
    return kept, sentences


def prepare_lesson(
    config: VisualSpartaTrainConfig,
    stores: Sequence[FeatureStore],
    out: Path,
    photos: Sequence[CaptionedPhoto],
    sentences: Sequence[str],
    model: VisualSparta,
) -> tuple[Teacher, SentenceDraw]:
    """Open the teachers, and find the sentences nearest to each photo.

    The teachers' vectors go to `out/teacher`.

    Raises:
        InputError: if a teacher cannot be used, or no sentence would be drawn.
    """
    assert config.teacher is not None and model.tokenizer is not None
    settings, data = config.teacher, config.data
    pool = pool_sentences([photo.captions for photo in photos], sentences)
    folders = [FeatureStore.open(folder) for folder in settings.features]
    with progress_bars(STAGES, Console()) as progress:
        inputs = TeacherInputs(
            [photo.image_id for photo in photos],
            pool.texts,
            folders or stores,
            settings.photos or data.photos or stores[0].photos,
            out / "teacher",
            pick_device("cpu" if config.accelerator == "cpu" else "auto"),
            config.workers,
            progress,
        )
        teacher = open_teacher(settings.models, inputs)
        key = teacher_key(settings.models, inputs)
        nearest = find_nearest(teacher, key, settings.nearest, inputs)
    ids = [model.tokenizer.encode_ids(text) for text in pool.texts]
    counts = settings.near_sentences, settings.random_sentences
    return teacher, SentenceDraw(ids, pool.captions, nearest, *counts)

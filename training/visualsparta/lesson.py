"""What a VisualSparta run learns from a teacher: its sentences, similarities and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.extract.networks.backbone import pick_device
from sparta.features.store import FeatureStore
from sparta.progress import progress_bars
from sparta.visualsparta.model import VisualSparta
from training.teacher.config import TeacherConfig
from training.teacher.nearest import SentenceDraw
from training.teacher.open import STAGES, TeacherInputs, find_nearest, open_teacher, teacher_key
from training.teacher.sentences import pool_sentences, read_sentences
from training.teacher.similarities import Teacher
from training.visualsparta.config import VisualSpartaTrainConfig


class Lesson(NamedTuple):
    """A teacher and the draw of the sentences it compares with photos, or neither."""

    teacher: Teacher | None
    draw: SentenceDraw | None


def lesson_texts(
    config: TeacherConfig, photos: Sequence[CaptionedPhoto]
) -> tuple[list[CaptionedPhoto], list[str]]:
    """The training photos with the captions to learn from, and the sentences of the file.

    Raises:
        InputError: if the file cannot be used, or there is neither a caption nor a sentence.
    """
    kept = [photo if config.captions else replace(photo, captions=()) for photo in photos]
    sentences = [] if config.sentences is None else read_sentences(config.sentences)
    if not sentences and not any(photo.captions for photo in kept):
        raise InputError(
            "teacher.sentences: without captions, give a text file of sentences, one a line "
            "(--sentences FILE)"
        )
    return kept, sentences


def prepare_lesson(
    config: VisualSpartaTrainConfig,
    stores: Sequence[FeatureStore],
    out: Path,
    photos: Sequence[CaptionedPhoto],
    sentences: Sequence[str],
    model: VisualSparta,
) -> Lesson:
    """Open the teachers, and find the sentences nearest to each photo.

    Args:
        config: of the run, with a teacher.
        stores: features of the photos.
        out: folder of the run; the teachers' vectors and scores go to its subfolder `teacher`.
        photos: to train on.
        sentences: besides their captions.
        model: that learns.

    Raises:
        InputError: if a teacher cannot be used, no sentence would be drawn, or term scores are to
            be learnt from a teacher of another vocabulary.
    """
    assert config.teacher is not None and model.tokenizer is not None
    settings, data = config.teacher, config.data
    pool = pool_sentences([photo.captions for photo in photos], sentences)
    if not any(pool.captions) and not settings.near_sentences + settings.random_sentences:
        raise InputError("teacher.near_sentences: without captions, draw at least one sentence")
    folders = [FeatureStore.open(folder) for folder in settings.features]
    with progress_bars(STAGES, Console()) as progress:
        inputs = TeacherInputs(
            [photo.image_id for photo in photos],
            pool.texts,
            folders or stores,
            settings.photos or data.photos or stores[0].photos,
            out / "teacher",
            pick_device("cpu" if config.accelerator == "cpu" else "auto"),
            torch.bfloat16 if config.precision == "bf16-mixed" else None,
            config.workers,
            progress,
        )
        teacher = open_teacher(settings.models, inputs)
        _check_terms(settings, teacher, model)
        key = teacher_key(settings.models, inputs)
        nearest = find_nearest(teacher, key, settings.nearest, inputs)
    ids = [model.tokenizer.encode_ids(text) for text in pool.texts]
    counts = settings.near_sentences, settings.random_sentences
    return Lesson(teacher, SentenceDraw(ids, pool.captions, nearest, *counts))


def _check_terms(config: TeacherConfig, teacher: Teacher, model: VisualSparta) -> None:
    assert model.tokenizer is not None
    if not config.term_scores:
        return
    if teacher.terms is None or teacher.terms.vocabulary != model.tokenizer.vocabulary_hash:
        raise InputError(
            "teacher.term_scores: term scores can be learnt from a VisualSparta model of the same "
            "vocabulary only; leave it at 0, or start from that model's checkpoint (model.init)"
        )

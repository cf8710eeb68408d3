"""Opening a run's teachers: each computes its photos and sentences once and is then unloaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedConfig

from sparta.errors import InputError
from sparta.features.extract.listing import file_stamps, listing_hash
from sparta.features.extract.networks.weights import hash_files, weights_hash
from sparta.features.store import FeatureStore
from sparta.model_id import check_name, find_file
from sparta.progress import Progress
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.vse.config import VseConfig
from training.teacher.dense import DenseTeacher
from training.teacher.dual_encoder import DualEncoder
from training.teacher.ensemble import Ensemble
from training.teacher.nearest import nearest_sentences
from training.teacher.row_cache import Rows, cached_rows
from training.teacher.similarities import Similarities, Teacher, TermTable

# What decides a model's output beside its weights.
SMALL_FILES = ["config.json", "preprocessor_config.json", "processor_config.json"]
SMALL_FILES += ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt"]
# Stages of the progress, in the order they come.
STAGES = {
    "photos": ("Teacher, photos", "photos"),
    "sentences": ("Teacher, sentences", "sentences"),
    "nearest": ("Nearest sentences", "photos"),
}


@dataclass(frozen=True)
class TeacherInputs:
    """What teachers compare.

    Attributes:
        image_ids: N training photos.
        sentences: S distinct sentences.
        stores: features of the photos, for models of this project.
        photos: folder of the photos, for dual encoders; None if it is unknown.
        folder: of the cached arrays.
        device: to compute on.
        precision: of the matrix products of VisualSparta models; None as in
            `VisualSparta.term_scores`.
        workers: processes that decode photos.
        progress: of `STAGES`.
    """

    image_ids: Sequence[str]
    sentences: Sequence[str]
    stores: Sequence[FeatureStore]
    photos: Path | None
    folder: Path
    device: torch.device
    precision: torch.dtype | None
    workers: int
    progress: Progress

    def cached(self, stage: str, rows: Rows) -> NDArray[Any]:
        """An array of the run's folder, computed if it is not there."""
        return cached_rows(self.folder, rows, partial(self.progress, stage))


def open_teacher(names: Sequence[str], inputs: TeacherInputs) -> Teacher:
    """Open teachers of any kind; see `TeacherConfig.models`.

    Raises:
        InputError: if one cannot be used, or its photos or features are missing.
    """
    kinds = {name: _kind(name) for name in names}
    sparse = [name for name in names if kinds[name] == VisualSpartaConfig.model_type]
    parts, terms = [], None
    for name in names:
        if kinds[name] == VseConfig.model_type:
            parts.append(_open_dense(name, inputs))
        elif name not in sparse:
            parts.append(_open_dual_encoder(name, inputs))
    if sparse:
        part, terms = _open_ensemble(sparse, inputs)
        parts.append(part)
    return Teacher(parts, terms)


def find_nearest(teacher: Teacher, key: str, count: int, inputs: TeacherInputs) -> NDArray[Any]:
    """The sentences nearest to each photo, [N, at most `count`] int32, cached.

    Args:
        teacher: of the inputs.
        key: names the teacher's models.
        count: sentences for each photo.
        inputs: of the teacher.
    """
    photos, sentences = len(inputs.image_ids), len(inputs.sentences)
    count = min(count, sentences)

    def blocks(start: int) -> Iterator[NDArray[np.int32]]:
        return nearest_sentences(teacher, range(start, photos), sentences, count)

    rows = Rows("nearest", [key], (photos, count), np.int32, blocks)
    return inputs.cached("nearest", rows)


def teacher_key(names: Sequence[str], inputs: TeacherInputs) -> str:
    """Names all that decides the similarities of some teachers."""
    stores = sorted(store.fingerprint for store in inputs.stores)
    parts = [*map(_model_key, names), *stores, _photos_key(inputs), _hash(inputs.sentences)]
    return _hash(parts)


def _kind(name: str) -> str:
    where = check_name(name, "teacher", "--teacher")
    try:
        values, _ = PreTrainedConfig.get_config_dict(where)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--teacher {name}: its config.json cannot be read; give the folder or hub name of a "
            "dual encoder, or a model of this project"
        ) from error
    return str(values.get("model_type"))


def _open_dual_encoder(name: str, inputs: TeacherInputs) -> Similarities:
    folder = inputs.photos
    if folder is None or not folder.is_dir():
        raise InputError(
            f"--teacher {name} looks at photos, and the feature stores do not record where theirs "
            f"are ({folder or 'nowhere'}): give teacher.photos"
        )
    encoder = DualEncoder(name, inputs.device)
    ids, texts, size = inputs.image_ids, inputs.sentences, encoder.dimension

    def photos(start: int) -> Iterator[NDArray[np.float16]]:
        return encoder.photos(folder, ids[start:], inputs.workers)

    def sentences(start: int) -> Iterator[NDArray[np.float16]]:
        return encoder.sentences(texts[start:])

    key = [_model_key(name)]
    shown = Rows("photos", [*key, _photos_key(inputs)], (len(ids), 1, size), np.float16, photos)
    read = Rows("sentences", [*key, *texts], (len(texts), size), np.float16, sentences)
    return Similarities(name, inputs.cached("sentences", read), inputs.cached("photos", shown))


def _open_dense(name: str, inputs: TeacherInputs) -> Similarities:
    model = DenseTeacher(name, inputs.stores, inputs.device)
    ids, texts = inputs.image_ids, inputs.sentences
    views, size = model.shape

    def sentences(start: int) -> Iterator[NDArray[np.float16]]:
        return model.sentences(texts[start:])

    key = [_model_key(name)]
    seen = [store.fingerprint for store in model.stores]
    photos = partial(model.photos, ids)
    shown = Rows("photos", [*key, *seen, *ids], (len(ids), views, size), np.float16, photos)
    read = Rows("sentences", [*key, *texts], (len(texts), size), np.float16, sentences)
    return Similarities(name, inputs.cached("sentences", read), inputs.cached("photos", shown))


def _open_ensemble(names: Sequence[str], inputs: TeacherInputs) -> tuple[Similarities, TermTable]:
    ensemble = Ensemble(names, inputs.stores, inputs.device, inputs.precision)
    ids = inputs.image_ids
    seen = [store.fingerprint for own in ensemble.stores for store in own]
    key = [*map(_model_key, names), *seen, *ids, str(inputs.precision)]
    shape, photos = (len(ids), len(ensemble.terms)), partial(ensemble.photos, ids)
    scores = inputs.cached("photos", Rows("terms", key, shape, np.float16, photos))
    counts = ensemble.counts(inputs.sentences)
    similar = Similarities(", ".join(names), counts, scores[:, None], len(names))
    return similar, TermTable(scores, ensemble.columns(), ensemble.tokenizer.vocabulary_hash)


@cache
def _model_key(name: str) -> str:
    where = check_name(name, "teacher", "--teacher")
    small = [path for file in SMALL_FILES if (path := find_file(where, file))]
    return weights_hash(where) + hash_files(small)


def _photos_key(inputs: TeacherInputs) -> str:
    """Changes with the photos: their names, and the sizes of the files where they are known."""
    ids = list(inputs.image_ids)
    if inputs.photos is None:
        return _hash(ids)
    return listing_hash(file_stamps(inputs.photos, ids))


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()

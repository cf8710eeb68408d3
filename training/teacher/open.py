"""Opening a run's teachers: each computes its photos and sentences once and is then unloaded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from sparta.errors import InputError
from sparta.extract.photos import file_stamps, listing_hash
from sparta.features.store import FeatureStore
from sparta.model_id import find_file, read_model_config
from sparta.networks.encoder import hash_files, weights_hash
from sparta.progress import Progress
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.vse.config import VseConfig
from training.teacher.similarities import Similarities, Teacher, nearest_sentences
from training.teacher.teachers import DenseTeacher, DualEncoder, check_dual_encoder

Report = Callable[[int, int], None]  # rows done and in all
# What decides a model's output beside its weights.
SMALL_FILES = ["config.json", "preprocessor_config.json", "processor_config.json"]
# Stages of the progress, in the order they come.
STAGES = {
    "photos": ("Teacher, photos", "photos"),
    "sentences": ("Teacher, sentences", "sentences"),
    "nearest": ("Nearest sentences", "photos"),
}


SMALL_FILES += ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt"]


@dataclass(frozen=True)
class TeacherInputs:
    """What teachers compare."""

    image_ids: Sequence[str]  # N training photos
    sentences: Sequence[str]  # S distinct sentences
    stores: Sequence[FeatureStore]  # features of the photos, for dense models
    photos: Path | None  # folder of the photos, for dual encoders; None if it is unknown
    folder: Path  # of the cached arrays
    device: torch.device  # to compute on
    workers: int  # processes that decode photos
    progress: Progress  # of `STAGES`

    def cached(self, stage: str, rows: Rows) -> NDArray[Any]:
        """An array of the run's folder, computed if it is not there."""
        return cached_rows(self.folder, rows, partial(self.progress, stage))


def open_teacher(names: Sequence[str], inputs: TeacherInputs) -> Teacher:
    """Open teachers of any kind; see `TeacherConfig.models`.

    Raises:
        InputError: if one cannot be used, or its photos or features are missing.
    """
    return Teacher([_open(name, _kind(name), inputs) for name in names])


def check_teachers(names: Sequence[str]) -> None:
    """Refuse models that cannot teach, by their configurations.

    Raises:
        InputError: if there is no such model, or it is neither a dual encoder nor a dense model.
    """
    for name in names:
        if _kind(name) != VseConfig.model_type:
            check_dual_encoder(name)


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
    kind = str(read_model_config(name, (), "teacher", "--teacher").get("model_type"))
    if kind == VisualSpartaConfig.model_type:
        raise InputError(
            f"--teacher {name} is a VisualSparta model: give a dual encoder such as CLIP, or a "
            "dense model; `sparta train photos` trains a VisualSparta model from captions"
        )
    return kind


def _open(name: str, kind: str, inputs: TeacherInputs) -> Similarities:
    ids, texts, model = inputs.image_ids, inputs.sentences, _model_key(name)
    if kind == VseConfig.model_type:
        dense = DenseTeacher(name, inputs.stores, inputs.device)
        (views, size), embed, photos = dense.shape, dense.sentences, partial(dense.photos, ids)
        seen = [*(store.fingerprint for store in dense.stores), *ids]
    else:
        folder = _photo_folder(name, inputs)
        encoder = DualEncoder(name, inputs.device)
        views, size, embed = 1, encoder.dimension, encoder.sentences
        photos = partial(encoder.photos, folder, ids, inputs.workers)
        seen = [_photos_key(inputs)]
    shown = Rows("photos", [model, *seen], (len(ids), views, size), np.float16, photos)
    read = Rows(
        "sentences",
        [model, *texts],
        (len(texts), size),
        np.float16,
        lambda start: embed(texts[start:]),
    )
    return Similarities(name, inputs.cached("sentences", read), inputs.cached("photos", shown))


def _photo_folder(name: str, inputs: TeacherInputs) -> Path:
    folder = inputs.photos
    if folder is None or not folder.is_dir():
        raise InputError(
            f"--teacher {name} looks at photos, and the feature stores do not record where theirs "
            f"are ({folder or 'nowhere'}): give teacher.photos"
        )
    return folder


@cache
def _model_key(name: str) -> str:
    small = [path for file in SMALL_FILES if (path := find_file(name, file))]
    return weights_hash(name) + hash_files(small)


def _photos_key(inputs: TeacherInputs) -> str:
    """Changes with the photos: their names, and the sizes of the files where they are known."""
    ids = list(inputs.image_ids)
    if inputs.photos is None:
        return _hash(ids)
    return listing_hash(file_stamps(inputs.photos, ids))


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


class Rows(NamedTuple):
    """An array to compute."""

    name: str  # of the array
    key: Iterable[str]  # everything that decides its content
    shape: tuple[int, ...]  # [rows, …]
    dtype: DTypeLike  # of its numbers
    # Yields the rows from a given one on, some at a time.
    blocks: Callable[[int], Iterator[NDArray[Any]]]


def cached_rows(folder: Path, rows: Rows, report: Report) -> NDArray[Any]:
    """The array, memory-mapped and read-only; computed first where the folder lacks it.

    Rows are appended to a file that is renamed when it is whole: an interrupted computation goes
    on behind the last whole row.

    Args:
        folder: of the files.
        rows: the array.
        report: called after each block.
    """
    content = "\n".join([rows.name, str(rows.shape), str(np.dtype(rows.dtype)), *rows.key])
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    path = folder / f"{rows.name}-{digest}.bin"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        _append(part, rows, report)
        part.replace(path)
    return np.memmap(path, rows.dtype, mode="r", shape=rows.shape)


def _append(part: Path, rows: Rows, report: Report) -> None:
    size = prod(rows.shape[1:]) * np.dtype(rows.dtype).itemsize
    with part.open("ab") as file:
        done = file.tell() // size
        file.truncate(done * size)
        for block in rows.blocks(done):
            file.write(np.ascontiguousarray(block, rows.dtype).tobytes())
            file.flush()
            done += len(block)
            report(done, rows.shape[0])
        os.fsync(file.fileno())

"""Teachers: dual encoders and dense models whose similarities VisualSparta learns from.

Each computes its vectors of photos and sentences once; they are cached.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial, reduce
from math import prod
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from sparta.errors import InputError, first_line
from sparta.extract.image_files import load_photo
from sparta.extract.photos import list_photos, listing_hash
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.model_id import find_file, model_folder, read_model_config
from sparta.networks.encoder import hash_files, weights_hash
from sparta.networks.pretrained import load_model, load_processor
from sparta.progress import Progress
from sparta.readers.base import read_lines
from sparta.text_encoder import move
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.vse.batch import collate_images
from sparta.vse.config import VseConfig
from sparta.vse.model import VseModel

BATCH = 64  # photos or sentences at once
# Trained with sentences padded to full length, whose last token is the sentence's vector.
PADDED = {"siglip", "siglip2"}
TEXTS = 1024  # sentences at once
BLOCK = 1024  # photos whose mean is taken at once
SAMPLE = 1000  # photos and sentences that the scale is estimated on
Numbers = NDArray[np.int64]
Similar = NDArray[np.float32]


# ---- sentences, and their similarities to photos -------------------------------------------------


def read_sentences(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, at least one; blank ones are left out."""
    sentences = [line.strip() for line in read_lines(path) if line.strip()]
    if not sentences:
        raise InputError(f"{path} is empty: give one sentence a line")
    return sentences


class Similarities:
    """Inner products, less each sentence's mean over the photos, divided by their deviation.

    Teachers differ in the range of their similarities. Standardised, they can be averaged, and
    sentences compared.

    Args:
        name: of the teacher, for messages.
        sentences: [S, D] float16.
        photos: [N, K, D] float16: K vectors a photo, of which the most similar one counts.
    """

    def __init__(
        self, name: str, sentences: NDArray[np.float16], photos: NDArray[np.float16]
    ) -> None:
        self.sentences, self.photos = sentences, photos
        self._mean = _mean(photos)
        self._scale = 1.0
        sample = self.between(_spread(len(sentences)), _spread(len(photos)))
        self._scale = float(np.sqrt(np.square(sample).mean()))
        if not self._scale:
            raise InputError(
                f"teacher.models: {name} gives every photo the same similarity with every sentence"
            )

    def between(self, sentences: Numbers, photos: Numbers) -> Similar:
        """Standardised similarities [s, p] of some sentences and photos, by their numbers."""
        texts = self.sentences[sentences].astype(np.float32)
        shown = self.photos[photos].astype(np.float32)
        views = [texts @ shown[:, view].T for view in range(shown.shape[1])]
        best: Similar = np.maximum.reduce(views)
        means: Similar = texts @ self._mean
        centred: Similar = (best - means[:, None]) / np.float32(self._scale)
        return centred


class Teacher:
    """The mean of several teachers' standardised similarities."""

    def __init__(self, parts: Sequence[Similarities]) -> None:
        self.parts = parts

    def __deepcopy__(self, _memo: Any) -> Teacher:
        """A shallow copy: averaging the weights copies all of a module, and these are files."""
        return copy(self)

    def between(self, sentences: Numbers, photos: Numbers) -> Similar:
        """Similarities [s, p] of some sentences and photos, by their numbers."""
        total = reduce(np.add, (part.between(sentences, photos) for part in self.parts))
        return total / np.float32(len(self.parts))

    def __call__(self, sentences: Tensor, photos: Tensor) -> Tensor:
        """Similarities [s, p] float32 on the numbers' device."""
        found = self.between(sentences.cpu().numpy(), photos.cpu().numpy())
        return torch.from_numpy(found).to(photos.device)


def _mean(photos: NDArray[np.float16]) -> Similar:
    """Mean [D] over photos and their vectors, of an array that need not fit in memory."""
    total = np.zeros(photos.shape[-1])
    for start in range(0, len(photos), BLOCK):
        total += photos[start : start + BLOCK].astype(np.float64).sum(axis=(0, 1))
    mean: Similar = (total / (photos.shape[0] * photos.shape[1])).astype(np.float32)
    return mean


def _spread(count: int) -> Numbers:
    """At most `SAMPLE` numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))


@dataclass(frozen=True)
class SentenceDraw:
    """Draws the sentences that enter a batch with a photo, beside its captions.

    The near ones make a batch informative: the teacher distinguishes between them. The random
    ones show what is far from every photo.
    """

    ids: Sequence[list[int]]  # term ids of each of S sentences
    captions: Sequence[list[int]]  # for each photo the numbers of its captions among them
    nearest: NDArray[np.int32]  # [N, m] int32, the sentences nearest to each photo
    near: int  # how many of those are drawn
    random: int  # how many of all are drawn

    def __call__(self, photo: int, instead: int, rng: np.random.Generator) -> list[int]:
        """Numbers of the sentences; `instead` more near ones replace captions that it lacks."""
        wanted, around = self.near + instead, self.nearest[photo]
        near = rng.choice(around, wanted, replace=len(around) < wanted)
        return [*near.tolist(), *rng.integers(len(self.ids), size=self.random).tolist()]


# ---- models that teach ---------------------------------------------------------------------------


def matching_stores(
    name: str, config: PreTrainedConfig, stores: Sequence[FeatureStore]
) -> list[FeatureStore]:
    """Those stores that hold the features a model was trained on, at least one."""
    if config.feature_source is None:
        found = [store for store in stores if store.source.dimension == config.feature_dim]
        differences = f"features of {config.feature_dim} numbers"
    else:
        wanted = FeatureSource(**config.feature_source)
        found = [store for store in stores if not wanted.differences(store.source)]
        differences = "; ".join(wanted.differences(stores[0].source))
    if not found:
        raise InputError(
            f"--teacher {name} was trained on other features than {stores[0].folder} holds "
            f"({differences}): name feature stores that it can read in teacher.features"
        )
    return found


class DualEncoder:
    """An image tower and a text tower into one space."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        check_dual_encoder(name)
        self.processor = load_processor(name, "--teacher")
        folder = model_folder(name)
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(folder)
            self.model = load_model(name).eval().to(device)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(
                f"--teacher {name} lacks its tokenizer or weights: {first_line(error)}"
            ) from error
        texts = self.model.config.get_text_config()
        self.length = min(self.tokenizer.model_max_length, texts.max_position_embeddings)
        self.dimension = self._embed_texts(["a"]).shape[1]

    def photos(
        self, folder: Path, ids: Sequence[str], workers: int, start: int
    ) -> Iterator[NDArray[np.float16]]:
        """Vectors [n, 1, D] of unit length of photos from a given one on, some at a time."""
        paths = [folder / image_id for image_id in ids[start:]]
        loader: DataLoader[Any] = DataLoader(
            paths,  # type: ignore[arg-type]  # a list has the methods of a Dataset
            batch_size=BATCH,
            collate_fn=self._prepare,
            num_workers=workers,
        )
        for inputs in loader:
            if isinstance(inputs, str):
                raise InputError(f"--teacher {self.name}: {inputs}")
            with torch.inference_mode():
                found = self.model.get_image_features(**inputs.to(self.device))
            yield self._unit(found)[:, None]

    def sentences(self, texts: Sequence[str]) -> Iterator[NDArray[np.float16]]:
        """Vectors [n, D] of unit length of sentences, some at a time."""
        for start in range(0, len(texts), BATCH):
            yield self._embed_texts(texts[start : start + BATCH])

    def _embed_texts(self, texts: Sequence[str]) -> NDArray[np.float16]:
        full = self.model.config.model_type in PADDED
        inputs = self.tokenizer(
            list(texts),
            padding="max_length" if full else "longest",
            truncation=True,
            max_length=self.length,
            return_tensors="pt",
        )
        with torch.inference_mode():
            return self._unit(self.model.get_text_features(**inputs.to(self.device)))

    def _prepare(self, paths: Sequence[Path]) -> Any:
        """The image processor's output, or which photo cannot be read: no error leaves a worker."""
        size = self.processor.size or {}
        side = max((value for value in dict(size).values() if value), default=0)
        images = []
        for path in paths:
            try:
                images.append(load_photo(path, side).image)
            except Exception as error:  # anything may come out of a damaged file
                return f"{path} cannot be read: {first_line(error)}"
        return self.processor(images=images, return_tensors="pt")

    def _unit(self, found: Any) -> NDArray[np.float16]:
        vectors = found if isinstance(found, Tensor) else found.pooler_output
        if vectors is None or vectors.ndim != 2:
            raise InputError(f"--teacher {self.name} gives no single vector of a photo or text")
        unit = torch.nn.functional.normalize(vectors.float(), dim=1)
        return unit.cpu().numpy().astype(np.float16)


def check_dual_encoder(name: str) -> None:
    """Refuse a model without an image tower and a text tower, by its configuration."""
    try:
        config = AutoConfig.from_pretrained(model_folder(name, weights=False))
    except (OSError, ValueError) as error:
        raise InputError(f"--teacher {name}: {first_line(error)}") from error
    kind: Any = MODEL_MAPPING.get(type(config), None)
    towers = ("get_image_features", "get_text_features")
    if not all(hasattr(kind, tower) for tower in towers):
        raise InputError(
            f"--teacher {name} is a {config.model_type}, which is no dual encoder: give a model "
            "like CLIP or SigLIP, or a dense model of this project"
        )


class DenseTeacher:
    """A dense VSE model; its vectors are averaged over those of the stores that it can read."""

    def __init__(self, name: str, stores: Sequence[FeatureStore], device: torch.device) -> None:
        self.model = VseModel.from_pretrained(name)
        if self.model.vision is not None or self.model.tokenizer is None:
            raise InputError(
                f"--teacher {name} has a vision network inside or no tokenizer: give a model "
                "that reads features"
            )
        move(self.model, device)
        self.stores = matching_stores(name, self.model.config, stores)

    @property
    def shape(self) -> tuple[int, int]:
        """K and D: vectors of a photo, and their numbers."""
        return self.model.config.views, self.model.config.dimension

    @torch.inference_mode()
    def photos(self, ids: Sequence[str], start: int) -> Iterator[NDArray[np.float16]]:
        """Vectors [n, K, D] of photos from a given one on, some at a time."""
        for first in range(start, len(ids), BATCH):
            found = [self._encoded(store, ids[first : first + BATCH]) for store in self.stores]
            yield torch.stack(found).mean(dim=0).cpu().numpy().astype(np.float16)

    def _encoded(self, store: FeatureStore, ids: Sequence[str]) -> Tensor:
        try:
            images = [store[store.index(name)] for name in ids]
        except KeyError as error:
            raise InputError(
                f"{store.folder} lacks photo {error.args[0]}: the teacher needs every training "
                "photo"
            ) from error
        limit = self.model.config.max_regions
        return self.model.encode_images(collate_images(images, limit).to(self.model.device))

    def sentences(self, texts: Sequence[str]) -> Iterator[NDArray[np.float16]]:
        """Vectors [n, D] of sentences, some at a time."""
        for start in range(0, len(texts), TEXTS):
            yield self.model.embed_texts(texts[start : start + TEXTS]).numpy().astype(np.float16)


# ---- opening, and what is cached -----------------------------------------------------------------

Number = TypeVar("Number", bound=np.number)
Report = Callable[[int, int], None]  # rows done and in all
# What decides a model's output beside its weights.
SMALL_FILES = (
    *("config.json", "preprocessor_config.json", "processor_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt"),
)
# Stages of the progress, in the order they come.
STAGES = {
    "photos": ("Teacher, photos", "photos"),
    "sentences": ("Teacher, sentences", "sentences"),
    "nearest": ("Nearest sentences", "photos"),
}


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

    def cached(self, rows: Rows[Number]) -> NDArray[Number]:
        """An array of the run's folder, computed if it is not there."""
        return cached_rows(self.folder, rows, partial(self.progress, rows.name))


def open_teacher(names: Sequence[str], inputs: TeacherInputs) -> Teacher:
    """Open teachers of any kind; see `TeacherConfig.models`."""
    return Teacher([_open(name, _kind(name), inputs) for name in names])


def check_teachers(names: Sequence[str]) -> None:
    """Refuse models that cannot teach, by their configurations."""
    for name in names:
        if _kind(name) != VseConfig.model_type:
            check_dual_encoder(name)


def find_nearest(
    teacher: Teacher, key: str, count: int, inputs: TeacherInputs
) -> NDArray[np.int32]:
    """The sentences nearest to each photo, [N, at most `count`] int32, cached."""
    photos, every = len(inputs.image_ids), np.arange(len(inputs.sentences))
    count = min(count, len(every))

    def blocks(start: int) -> Iterator[NDArray[np.int32]]:
        for first in range(start, photos, BATCH):
            some = np.arange(first, min(first + BATCH, photos))
            similar = teacher.between(every, some).T
            best = np.argpartition(-similar, count - 1, axis=1)[:, :count]
            yield np.sort(best, axis=1).astype(np.int32)

    return inputs.cached(Rows("nearest", [key], (photos, count), np.int32, blocks))


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
        folder = inputs.photos
        if folder is None or not folder.is_dir():
            raise InputError(
                f"--teacher {name} looks at photos, and the feature stores do not record where "
                f"theirs are ({folder or 'nowhere'}): give teacher.photos"
            )
        encoder = DualEncoder(name, inputs.device)
        views, size, embed = 1, encoder.dimension, encoder.sentences
        photos = partial(encoder.photos, folder, ids, inputs.workers)
        seen = [_photos_key(inputs)]
    shown = Rows("photos", [model, *seen], (len(ids), views, size), np.float16, photos)
    shape = len(texts), size
    read = Rows("sentences", [model, *texts], shape, np.float16, lambda at: embed(texts[at:]))
    return Similarities(name, inputs.cached(read), inputs.cached(shown))


@cache
def _model_key(name: str) -> str:
    small = [path for file in SMALL_FILES if (path := find_file(name, file))]
    return weights_hash(name) + hash_files(small)


def _photos_key(inputs: TeacherInputs) -> str:
    """Changes with the photos: their names, and the sizes of the files where they are known."""
    ids = list(inputs.image_ids)
    if inputs.photos is None:
        return _hash(ids)
    return listing_hash(list_photos(inputs.photos, ids))


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


class Rows(NamedTuple, Generic[Number]):
    """An array to compute."""

    name: str  # of the array
    key: Iterable[str]  # everything that decides its content
    shape: tuple[int, ...]  # [rows, …]
    dtype: type[Number]  # of its numbers
    # Yields the rows from a given one on, some at a time.
    blocks: Callable[[int], Iterator[NDArray[Number]]]


def cached_rows(folder: Path, rows: Rows[Number], report: Report) -> NDArray[Number]:
    """The array, memory-mapped and read-only; computed first where the folder lacks it.

    Rows are appended to a file that is renamed when it is whole: an interrupted computation goes
    on behind the last whole row.
    """
    content = "\n".join([rows.name, str(rows.shape), str(np.dtype(rows.dtype)), *rows.key])
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    path = folder / f"{rows.name}-{digest}.bin"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        size = prod(rows.shape[1:]) * np.dtype(rows.dtype).itemsize
        part = path.with_suffix(".part")
        with part.open("ab") as file:
            done = file.tell() // size
            file.truncate(done * size)
            for block in rows.blocks(done):
                file.write(np.ascontiguousarray(block, rows.dtype).tobytes())
                file.flush()
                done += len(block)
                report(done, rows.shape[0])
            os.fsync(file.fileno())
        part.replace(path)
    return np.memmap(path, rows.dtype, mode="r", shape=rows.shape)

"""Recall of models, sparse and dense, alone and averaged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from rich.table import Table
from torch import Tensor

from eval.recall.photos import Store, choose, missing_in, missing_of
from eval.recall.scores import (
    ProtocolRecall,
    ReferenceImages,
    Scores,
    caption_posterior,
    check_memory,
    dense_scores,
    mean_scores,
    measure_recall,
    part_of,
    sparse_scores,
)
from indexer.dense.text_encoder import load_dense_model
from indexer.encoding.models import load_models, model_fingerprint
from indexer.manifest import is_index
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.captions.record import stored_ids
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import HEADER, FeatureStore
from sparta.json_values import Json
from sparta.model_id import pinned_name, read_model_config
from sparta.networks.backbone import pick_device
from sparta.progress import Progress, no_progress
from sparta.text_encoder import move
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta
from sparta.vse.batch import collate_images
from sparta.vse.config import VseConfig
from sparta.vse.encoders import PhotoFolder
from sparta.vse.model import VseModel

TEXTS = 1024  # encoded between two steps of a progress bar


@dataclass(frozen=True)
class Images:
    """Some images of a store, in a given order."""

    store: Store  # of their features, or of the photos themselves; it has all of them
    image_ids: Sequence[str]  # in it

    @classmethod
    def of(cls, store: Store, *groups: Sequence[str]) -> Images:
        """Find images as `stored_ids` does, each group by itself: its ids are of one source.

        Raises:
            InputError: if the store lacks some of them.
        """
        stored, image_ids = set(store.ids), list[str]()
        for group in groups:
            found = stored_ids(group, stored, str(store.folder))
            missing_of(group, found, store.ids, store.folder, None)
            image_ids += [found[one] for one in group]
        return cls(store, image_ids)

    def __len__(self) -> int:
        return len(self.image_ids)

    def batches(self, size: int, progress: Progress) -> Iterator[tuple[slice, list[Any]]]:
        """The images, a batch at a time, and their places among all of them.

        Each is an `ImageFeatures`, or of photos [side, side, 3] uint8. Progress is reported of the
        stage "images".
        """
        for start in range(0, len(self), size):
            place = slice(start, min(start + size, len(self)))
            ids = self.image_ids[place]
            yield place, [self.store[self.store.index(one)] for one in ids]
            progress("images", place.stop, len(self))


@dataclass(frozen=True)
class DenseModel:
    """A model that maps texts and images to vectors."""

    name: str  # folder or hub name
    model: VseModel  # in eval mode, on its device

    def scores(
        self, texts: Sequence[str], images: Images, batch_size: int, progress: Progress
    ) -> Scores:
        """Encode T texts and N images; stages "images" and "texts"."""
        own = self.embed_texts(texts, progress)[:, None]
        return dense_scores(own, self.embed_images(images, batch_size, progress))

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
    image unless `caption_posterior` corrects for it.
    """

    name: str  # folder or hub name
    model: VisualSparta  # in eval mode, on its device
    tokenizer: TermTokenizer  # the model's

    def scores(
        self, texts: Sequence[str], images: Images, batch_size: int, progress: Progress
    ) -> Scores:
        """As `DenseModel.scores`; only the texts' terms are computed.

        Raises:
            InputError: if the term scores would not fit in memory.
        """
        ids = [self.tokenizer.query_ids(text) for text in texts]
        distinct = len(set(texts))
        progress("texts", distinct, distinct)
        used = sorted({term for text in ids for term in text})
        check_memory(len(images), len(used))
        device, config = self.model.device, self.model.config
        wanted = torch.zeros(len(self.tokenizer.vocabulary), dtype=torch.bool, device=device)
        wanted[used] = True
        weights = torch.empty(len(used), len(images), device=device)
        collate = ImagePadder.of(self.tokenizer, config)
        for place, batch in images.batches(batch_size, progress):
            weights[:, place] = self.model.term_scores(collate(batch), wanted).scores[:, used].T
        places = {term: place for place, term in enumerate(used)}
        return sparse_scores([[places[term] for term in text] for text in ids], weights)


Model = DenseModel | SparseModel


def open_model(name: str, device: torch.device) -> Model:
    """Load a model folder, a hub name or "sample".

    Raises:
        InputError: if it is neither a VSE model nor a VisualSparta, or cannot be used.
    """
    if is_index(Path(name)):
        raise InputError(f"{name} is an index: measure it with sparta eval index")
    known = (VseConfig.model_type, VisualSpartaConfig.model_type)
    kind, name = read_model_config(name, known, "model")["model_type"], pinned_name(name)
    if kind == VseConfig.model_type:
        dense = load_dense_model(name)
        move(dense, device)
        return DenseModel(name, dense)
    (sparse,), tokenizer = load_models([name], device)
    return SparseModel(name, sparse, tokenizer)


def _open_store(model: Model, folder: Path) -> Store:
    """A feature store, or photos for a model with a vision network inside."""
    config = model.model.config
    if isinstance(model, SparseModel) or config.vision is None:
        return FeatureStore.open(folder)
    if (folder / HEADER).is_file():
        raise InputError(f"{folder} is a feature store; {model.name} takes a folder of photos")
    return PhotoFolder(folder, FeatureSource(**config.feature_source))


def _differences(model: Model, store: Store, transfer: bool) -> list[str]:
    """How features differ from those the model was trained on: refused without `transfer`."""
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
    wanted, given = FeatureSource(**config.feature_source), store.source
    if isinstance(model, SparseModel) and model.model.head and not model.model.patches:
        # The score is that of the whole photo, whatever the cells that explain it.
        wanted, given = _without_grid(wanted), _without_grid(given)
    found = wanted.differences(given)
    if found and not transfer:
        raise InputError(
            f"{store.folder} has other features than {model.name} was trained on (the model's "
            f"against the store's): {'; '.join(found)}. Give --transfer to measure the model "
            "on them nevertheless"
        )
    return found


def _without_grid(source: FeatureSource) -> FeatureSource:
    return replace(source, extra={k: v for k, v in source.extra.items() if k != "grid"})


@dataclass(frozen=True)
class EvaluatedModel:
    """A model and the features it is measured on."""

    model: Model
    store: Store
    differences: list[str]  # of its features and those it was trained on

    @cached_property
    def fingerprint(self) -> str:
        """The model's."""
        return model_fingerprint(self.model.model)

    def record(self) -> Json:
        """The model and its features as JSON values."""
        return {
            "model": self.model.name,
            "fingerprint": self.fingerprint,
            "features": str(self.store.folder),
            "features_fingerprint": getattr(self.store, "fingerprint", None),
            "other_features_than_trained_on": self.differences,
        }


@dataclass(frozen=True)
class ModelRecall:
    """Recall of a model or an ensemble."""

    members: Sequence[EvaluatedModel]  # several form an ensemble
    found: ProtocolRecall
    seconds: float  # for encoding and ranking
    reference: ReferenceImages | None = None  # that captions were compared by

    @property
    def seed(self) -> int | None:
        """What the reference images were drawn with, None if nothing was drawn."""
        return self.reference.seed if self.reference else None

    def record(self) -> Json:
        """The figures, costs and members as JSON values.

        Items per second are VSE+2AD's #OIPs. A query by text costs a dense model an inner product
        for each view of each ranked image, and VisualSparta none.
        """
        views = sum(getattr(one.model.model.config, "views", 0) for one in self.members)
        found, seconds = self.found, self.seconds
        costs = {
            "seconds": seconds,
            "items_per_second": (found.images + found.captions) / seconds,
            "inner_products": views * found.images // found.folds,
        }
        members = [member.record() for member in self.members]
        record = found.record() | {"members": members} | costs
        if other := self.reference:
            record["reference"] = {"images": len(other.image_ids), "missing": other.missing}
        return record

    def table(self) -> Table:
        """The figures as a table, with a note if features differ from those of the training."""
        text = "{seconds:.1f} s, {items_per_second:,.0f} items/s, {inner_products:,} inner products"
        table, lines = self.found.table(), [text.format(**self.record()) + " a query"]
        if self.reference and self.reference.missing:
            lines.append(f"Reference images left out: {self.reference.missing:,}")
        for one in self.members:
            if one.differences:
                lines.append(f"{one.model.name}, transferred: {'; '.join(one.differences)}")
        table.caption = "\n".join([str(table.caption), *lines])
        return table


def open_members(
    models: Sequence[str], features: Sequence[Path], transfer: bool, device: str
) -> list[EvaluatedModel]:
    """Open models and their features.

    There is one store, or folder of photos for a model with a vision network inside, for each model
    or one for all. `transfer` accepts features that a model was not trained on.

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
        store = _open_store(model, folder)
        members.append(EvaluatedModel(model, store, _differences(model, store, transfer)))
    return members


def scores_of(
    members: Sequence[EvaluatedModel],
    texts: Sequence[str],
    groups: Sequence[Sequence[str]],
    batch_size: int,
    progress: Progress,
) -> list[Scores]:
    """Each member's scores of T texts for N images, in groups as `Images.of` finds them."""
    images = [Images.of(one.store, *groups) for one in members]
    return [
        one.model.scores(texts, own, batch_size, part_of(number, len(members), progress))
        for number, (one, own) in enumerate(zip(members, images, strict=True))
    ]


def measure_model_recall(
    members: Sequence[EvaluatedModel],
    protocol: str,
    folds: Sequence[Sequence[CaptionedPhoto]],
    batch_size: int,
    reference: ReferenceImages | None = None,
    progress: Progress = no_progress,
    missing: Set[str] = frozenset(),
) -> ModelRecall:
    """Measure a model, or an ensemble by the mean of its members' scores.

    Folds are of `eval.recall.photos.choose`; they stay as they are without the missing photos,
    which a member lacks. With reference images, captions are compared by P(image | caption), see
    `caption_posterior`. Reports progress of the stages "texts", "images" and "rank".
    """
    start = time.perf_counter()
    kept = [[photo for photo in fold if photo.image_id not in missing] for fold in folds]
    kept = [fold for fold in kept if fold]
    photos = [photo for fold in kept for photo in fold]
    texts = [text for photo in photos for text in photo.captions]
    own, others = [photo.image_id for photo in photos], reference.image_ids if reference else []
    scores = scores_of(members, texts, [own, others], batch_size, progress)
    if reference is not None:
        every, first, rest = slice(None), slice(len(own)), slice(len(own), None)
        scores = [
            caption_posterior(
                one.select(every, first), one.select(every, rest), reference.temperature
            )
            for one in scores
        ]
    lost = sum(map(len, folds)) - len(photos)
    found = measure_recall(protocol, kept, mean_scores(scores), progress, lost)
    return ModelRecall(members, found, time.perf_counter() - start, reference)


# ---- transfer ------------------------------------------------------------------------------------


class DataSet(NamedTuple):
    """Photos with captions, their features, and how to read and measure them."""

    features: Path
    captions: Path
    split: str
    protocol: str


@dataclass(frozen=True)
class TransferRecall:
    """Recall of models on data sets they were not trained on (VisualSparta, table 5)."""

    seed: ClassVar[None] = None  # nothing is drawn at random
    members: Sequence[EvaluatedModel]  # with the features of the first data set
    found: Sequence[tuple[DataSet, ModelRecall]]  # by data set, then model

    def record(self) -> Json:
        """The figures for programs, one row a model and data set."""
        return {"rows": [{"data_set": own._asdict()} | one.record() for own, one in self.found]}

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table(caption="R@1 / R@5 / R@10, median rank")
        for column in ("model", "data set", "text → image", "image → text"):
            table.add_column(column, overflow="fold")
        for own, one in self.found:
            name = f"{own.captions}, {own.split}"
            if one.found.missing:
                name += f", {one.found.name}"
            ways = one.found.text_to_image, one.found.image_to_text
            table.add_row(one.members[0].model.name, name, *map(str, ways))
        return table


def data_sets(
    features: Sequence[Path], captions: Sequence[Path], split: str, protocol: str
) -> list[DataSet]:
    """Combine the options of each data set, which are in the same order.

    `split` and `protocol` name one for all, or one for each with commas between.

    Raises:
        InputError: if there are fewer than two data sets, or the counts do not fit.
    """
    count = len(captions)
    if count < 2:
        raise InputError("--captions: give two data sets or more, each with its --features")
    if len(features) != count:
        raise InputError(
            f"{len(features)} --features for {count} --captions: give one of each for every data "
            "set, in the same order"
        )
    each = []
    for option, text in (("--split", split), ("--protocol", protocol)):
        values = text.split(",")
        if len(values) not in (1, count):
            raise InputError(
                f"{option} {text}: {len(values)} values for {count} data sets; give one for all, "
                "or one for each in the same order"
            )
        each.append(values * (count // len(values)))
    return [DataSet(*parts) for parts in zip(features, captions, *each, strict=True)]


def measure_transfer(
    sets: Sequence[DataSet],
    models: Sequence[str],
    device: str,
    allow_missing: bool,
    batch_size: int,
    progress: Progress = no_progress,
) -> TransferRecall:
    """Measure each model by itself on each data set.

    All sets are opened before the first measurement, so that errors appear at once. Reports
    progress of the stages "texts", "images" and "rank", anew for each measurement.

    Raises:
        InputError: if a model, store or captions file cannot be used, features differ from those a
            model was trained on, or photos are missing.
    """
    opened = []
    for own in sets:
        folds = choose(own.protocol, read_captions(own.captions, own.split))
        members = open_members(models, [own.features], False, device)
        ids = [photo.image_id for fold in folds for photo in fold]
        missing = missing_in((one.store for one in members), ids, allow_missing)
        opened += [(own, one, folds, missing) for one in members]
    found = []
    for own, one, folds, missing in opened:
        part = measure_model_recall(
            [one], own.protocol, folds, batch_size, progress=progress, missing=missing
        )
        found.append((own, part))
    return TransferRecall([one for _, one, _, _ in opened[: len(models)]], found)

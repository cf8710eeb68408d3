"""A training of term vectors: teachers, then the model they teach, or a tuned backbone alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from sparta.adapt.fit import (
    Aims,
    Bags,
    Plan,
    Teachers,
    TermVectors,
    Texts,
    Views,
    optimise,
    term_sums,
)
from sparta.adapt.folder import Fitted
from sparta.captions.read import CaptionedPhoto
from sparta.console import Console
from sparta.errors import InputError
from sparta.extract.photos import Augmentation, Decoder, Photo
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.metrics import ranks, recall
from sparta.networks.backbone import pick_device
from sparta.networks.encoder import is_lite, scale_of, weights_file
from sparta.networks.lite import RESAMPLE, EfficientNetLite
from sparta.progress import Progress, progress_bars
from sparta.text_encoder import encoder_config, load_word_pieces
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.config import ImageHeadConfig
from sparta.vse.init import from_bert
from sparta.vse.model import VseModel, sentence_vectors
from training.run_folder import TrainResult, say_recall
from training.terms.config import TermVectorsConfig
from training.terms.data import read_sentences, read_texts, read_views
from training.terms.models import DualEncoder, TunedEncoder

STUDENT = "terms.pt"  # unfinished term vectors


def check_term_vectors(config: TermVectorsConfig, photos: Sequence[CaptionedPhoto]) -> None:
    """Refuse settings of a run that cannot be carried out."""
    sizes, data = {"teachers.batch_size": config.teachers.batch_size}, config.data
    if config.tune and config.dense:
        raise InputError("dense and tune: a run writes a dense model or a network: set one of them")
    if config.tune:
        if data.photos is None or data.backbone is None or not is_lite(data.backbone):
            raise InputError("tune: give data.photos, and efficientnet-lite2 as data.backbone")
        sizes["tune.batch_size"] = config.tune.batch_size
    elif not config.dense:
        sizes["batch_size"] = config.batch_size
    for key, size in sizes.items():
        if size > len(photos):
            raise InputError(
                f"{key}: {size} is more than the {len(photos)} training photos: set "
                f"{' and '.join(sizes)} to no more"
            )
    if config.model.init is None:
        raise InputError("model.init: name a BERT-like sentence encoder (--init NAME or DIR)")
    encoder_config(config.model.init)
    load_word_pieces(config.model.init)
    if config.sentences is not None:
        read_sentences(config.sentences)


def forget_term_vectors(out: Path) -> None:
    """Let the term vectors of a run begin again; what comes before them is kept."""
    (out / "checkpoints" / STUDENT).unlink(missing_ok=True)


def train_term_vectors(
    config: TermVectorsConfig,
    stores: Sequence[FeatureStore],
    out: Path,
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
) -> TrainResult:
    """Train teachers and model; write the model to `out/model`.

    A run may also write its first teacher there, or tune the backbone.

    Everything that is finished is kept in `out/checkpoints`, from where a killed run continues.
    Recall is that of all term scores, or of the dense model.
    """
    assert config.model.init is not None
    tokenizer = load_word_pieces(config.model.init)
    kept = out / "checkpoints"
    kept.mkdir(exist_ok=True)
    count = 1 if config.tune or config.dense else config.teachers.count
    stages = {
        "features": ("Reading features", "views"),
        "sentences": ("Sentence vectors", "sentences"),
        **{f"teacher {n}": (f"Teacher {n}", "steps") for n in range(1, count + 1)},
        "photos": ("Reading photos", "photos"),
        "tune": ("Tuning the network", "steps"),
        "terms": ("Term vectors", "steps"),
    }
    with progress_bars(stages, Console()) as progress:
        run = _Run(config, stores, tokenizer, kept, progress)
        sentences = [] if config.dense else _sentences(config, held_out)
        data = run.read(photos, sentences, "texts")
        validation = run.read(held_out, [], "held-out") if held_out and not config.tune else None
        if config.dense:
            member = run.teacher(0, data, validation)
            member.save(run.dense, out / "model")
            found = _named(_dense_recall(member, validation)) if validation else {}
            return TrainResult(out / "model", found, config.planned_epochs, config.planned_epochs)
        members = [run.teacher(number, data) for number in range(count)]
        if config.tune:
            ids = [photo.image_id for photo in photos]
            file = _tune(config, members[0], data, ids, out, progress)
            return TrainResult(file, {}, config.planned_epochs, config.planned_epochs)
        bags = Bags.of(data.texts, len(tokenizer.vocabulary), config.model.least_sentences)
        taught = run.student(members, data, bags, validation)
    found = _named(_recall(taught, bags, validation)) if validation else {}
    captions = [caption for photo in photos for caption in photo.captions]
    head = ImageHeadConfig(intermediate_size=config.model.width)
    fitted = Fitted(taught, bags, tokenizer, data.texts, [*captions, *sentences])
    fitted.save(out / "model", head, run.source, data.views)
    return TrainResult(out / "model", found, config.epochs, config.epochs)


def _sentences(config: TermVectorsConfig, held_out: Sequence[CaptionedPhoto]) -> list[str]:
    """Those of the file, without captions of held-out photos."""
    if config.sentences is None:
        return []
    own = {caption for photo in held_out for caption in photo.captions}
    found = [text for text in read_sentences(config.sentences) if text not in own]
    order = np.random.default_rng(config.seed).permutation(len(found))
    return [found[place] for place in sorted(order[: config.most_sentences].tolist())]


class Data(NamedTuple):
    """Photos, their captions with further sentences, and what the sentence encoder makes of these.

    `vectors` are [S, d] float16.
    """

    views: Views
    texts: Texts
    vectors: Tensor


@dataclass(frozen=True)
class _Run:
    """The steps of a training, each of which a killed run continues."""

    config: TermVectorsConfig
    stores: Sequence[FeatureStore]
    tokenizer: TermTokenizer
    kept: Path  # folder of what is finished
    progress: Progress

    @property
    def source(self) -> FeatureSource:
        """Of the features that the model reads."""
        source, grid = self.stores[0].source, self.config.model.grid
        return source if grid is None else replace(source, extra=source.extra | {"grid": grid})

    @cached_property
    def dense(self) -> VseModel:
        """The sentence encoder, with untrained heads on it."""
        model = self.config.model
        return from_bert(
            str(model.init),
            self.source,
            sentence=True,
            name="dual-encoder",
            dimension=model.size,
            visual="whole",
            visual_width=model.width,
        )

    def read(self, photos: Sequence[CaptionedPhoto], sentences: Sequence[str], name: str) -> Data:
        """Features of photos; their captions and further sentences, whose vectors are kept."""

        def encode(texts: Sequence[str]) -> Tensor:
            return sentence_vectors(self.dense, texts, self.progress)

        views, cache = read_views(self.stores, photos, self.progress), self.kept / name
        texts = read_texts(
            photos, sentences, encode, self.tokenizer, cache.with_suffix(".safetensors")
        )
        return Data(views, *texts)

    def teacher(self, number: int, data: Data, validation: Data | None = None) -> DualEncoder:
        """One trained dual encoder, or the one that was trained before."""
        config, settings = self.config, self.config.teachers
        seed = config.seed * 1000 + number
        torch.manual_seed(seed)
        width, terms = data.vectors.shape[1], len(self.tokenizer.vocabulary)
        member = DualEncoder(config, data.views.features[0], width, terms)
        # Each has a checkpoint of its own: that of another would be taken for its beginning.
        done, unfinished = (self.kept / f"{name}-{number}.pt" for name in ("teacher", "unfinished"))
        if done.is_file():
            member.load_state_dict(torch.load(done, weights_only=True))
            return member.eval()
        rate = settings.learning_rate

        def measure(epoch: int) -> None:
            assert validation
            say_recall(epoch, settings.epochs, _dense_recall(member, validation))

        optimise(
            member,
            torch.optim.AdamW(member.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.1),
            lambda photos: member.loss(data.views.draw(photos), data.texts, data.vectors, photos),
            _plan(config, data, settings.batch_size, settings.epochs, seed),
            partial(self.progress, f"teacher {number + 1}"),
            unfinished,
            measure if validation else None,
        )
        partial_file = done.with_suffix(".partial")
        torch.save(member.state_dict(), partial_file)
        partial_file.replace(done)
        unfinished.unlink(missing_ok=True)
        return member

    def student(
        self,
        members: list[DualEncoder],
        data: Data,
        bags: Bags,
        validation: Data | None,
    ) -> TermVectors:
        """Term vectors that the dual encoders teach."""
        config, unfinished = self.config, self.kept / STUDENT
        teachers = Teachers([member.teaches(*data) for member in members])
        head = members[0].image
        with torch.no_grad():
            means = [head.direction(part.float()).mean(dim=0) for part in data.views.features]
        head.dropout.p = config.model.dropout
        first = bags.ridge(teachers.parts[0][1])
        taught = TermVectors(head, first, torch.stack(means).mean(dim=0))
        aims = Aims(config.random_sentences, config.captions, config.flops)

        def measure(epoch: int) -> None:
            assert validation
            say_recall(epoch, config.epochs, _recall(taught, bags, validation))

        optimise(
            taught,
            taught.optimiser(config.term_learning_rate, config.learning_rate),
            partial(taught.loss, aims, data.views, data.texts, bags, teachers),
            _plan(config, data, config.batch_size, config.epochs, config.seed),
            partial(self.progress, "terms"),
            unfinished,
            measure if validation else None,
        )
        unfinished.unlink(missing_ok=True)
        return taught


def _plan(config: TermVectorsConfig, data: Data, batch_size: int, epochs: int, seed: int) -> Plan:
    photos = len(data.texts.first)
    steps = epochs * (photos // batch_size)
    return Plan(photos, batch_size, steps, seed, config.gradient_clip, config.average)


@torch.inference_mode()
def _recall(taught: TermVectors, bags: Bags, data: Data) -> list[float]:
    """R@1, R@5 and R@10 of held-out captions, text → image."""
    owners = data.texts.owners()
    columns = bags.places[data.texts.terms[: len(owners)]]
    sums = term_sums(taught.scores(data.views.features[0].float()), columns)
    return list(recall(ranks(sums, owners[:, None].tolist(), ties="by_id"))[:3])


@torch.inference_mode()
def _dense_recall(member: DualEncoder, data: Data) -> list[float]:
    """R@1, R@5 and R@10 of held-out captions by cosines, text → image."""
    owners = data.texts.owners()[:, None].tolist()
    photos = member.image.direction(data.views.features[0].float())
    cosines = member.text_vectors(data.texts, data.vectors).float() @ photos.T
    return list(recall(ranks(cosines, owners, ties="pessimistic"))[:3])


def _named(found: Sequence[float]) -> dict[str, float]:
    return dict(zip(("held-out R@1", "R@5", "R@10"), found, strict=True))


# ---- tuning the backbone -------------------------------------------------------------------------


def _tune(
    config: TermVectorsConfig,
    member: DualEncoder,
    data: Data,
    image_ids: Sequence[str],
    out: Path,
    progress: Progress,
) -> Path:
    """Train the backbone's later stages and the heads of a dual encoder on the photos themselves.

    The member was trained on the backbone's features. Returns the file `out/backbone.safetensors`,
    and reports progress of the stages "photos" and "tune".
    """
    settings, folder, backbone = config.tune, config.data.photos, config.data.backbone
    assert settings is not None and folder is not None and backbone is not None
    scale, device = scale_of(backbone), pick_device("auto")
    pixels = _read_pixels(folder, image_ids, scale.side, partial(progress, "photos"))
    network = EfficientNetLite.from_file(scale, weights_file(backbone))
    tuned = TunedEncoder(network, member, settings, pixels.to(device)).to(device)
    optimise(
        tuned,
        tuned.optimiser(),
        lambda photos: member.loss(tuned.draw(photos), data.texts, data.vectors, photos),
        _plan(config, data, settings.batch_size, settings.epochs, config.seed),
        partial(progress, "tune"),
        out / "checkpoints" / "tune.pt",
    )
    path = out / "backbone.safetensors"
    state = {name: value.half().cpu().contiguous() for name, value in network.state_dict().items()}
    save_file(state, path)
    return path


def _read_pixels(
    folder: Path, image_ids: Sequence[str], side: int, progress: Callable[[int, int], None]
) -> Tensor:
    """[N, 3, side, side] uint8 of photos, stretched as features are extracted."""
    decoder = Decoder(folder, side, RESAMPLE, Augmentation("plain"))
    found = np.empty((len(image_ids), 3, side, side), np.uint8)
    for row, image_id in enumerate(image_ids):
        photo = decoder.decode(image_id)
        if not isinstance(photo, Photo):
            raise InputError(f"{folder / image_id}: {photo.reason}")
        found[row] = photo.pixels.transpose(2, 0, 1)
        progress(row + 1, len(image_ids))
    return torch.from_numpy(found)

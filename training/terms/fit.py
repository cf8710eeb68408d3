"""A training of term vectors: teachers, then the model they teach, or a tuned backbone alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

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
from sparta.visualsparta.init import from_config
from sparta.visualsparta.model import VisualSparta
from sparta.visualsparta.offsets import OFFSETS, SAMPLE, TermOffsets
from sparta.word_tables import RARE_TERMS
from training.module import learning_rate_factor
from training.run_folder import TrainResult, say_recall
from training.teacher import read_sentences
from training.terms.config import TermVectorsConfig
from training.terms.data import Texts, Views, read_texts
from training.terms.models import Bags, DualEncoder, Teachers, TermVectors, TunedEncoder
from training.terms.spelling import write_spelling

STUDENT = "terms.pt"  # unfinished term vectors
PHOTOS = 10  # training photos whose captions have a term that is not rare
WARMUP = 50  # steps in which the learning rate rises
SAVE = 100  # steps between checkpoints
Part: TypeAlias = nn.Module | Optimizer | LRScheduler  # of a checkpoint


def check_term_vectors(config: TermVectorsConfig, photos: Sequence[CaptionedPhoto]) -> None:
    """Refuse settings of a run that cannot be carried out."""
    sizes, data = {"teachers.batch_size": config.teachers.batch_size}, config.data
    if config.tune:
        if data.photos is None or data.backbone is None or not is_lite(data.backbone):
            raise InputError("tune: give data.photos, and efficientnet-lite2 as data.backbone")
        sizes["tune.batch_size"] = config.tune.batch_size
    else:
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
    """Train teachers and model; write the model to `out/model`, or tune the backbone alone.

    Everything that is finished is kept in `out/checkpoints`, from where a killed run continues.
    Recall is that of all term scores.
    """
    assert config.model.init is not None
    tokenizer = load_word_pieces(config.model.init)
    kept = out / "checkpoints"
    kept.mkdir(exist_ok=True)
    count = 1 if config.tune else config.teachers.count
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
        sentences = _sentences(config, held_out)
        views, texts = run.read(photos, sentences, "texts")
        members = [run.teacher(number, views, texts) for number in range(count)]
        if config.tune:
            ids = [photo.image_id for photo in photos]
            file = _tune(config, members[0], texts, ids, out, progress)
            return TrainResult(file, {}, config.planned_epochs, config.planned_epochs)
        bags = Bags.of(texts, len(tokenizer.vocabulary), config.model.least_sentences)
        validation = run.read(held_out, [], "held-out") if held_out else None
        taught = run.student(members, views, texts, bags, validation)
    found = {}
    if validation:
        recall = _recall(taught, bags, *validation)
        found = dict(zip(("held-out R@1", "R@5", "R@10"), recall, strict=True))
    source = stores[0].source
    if config.model.grid is not None:
        source = replace(source, extra=source.extra | {"grid": config.model.grid})
    model = _model(taught, bags, tokenizer, source)
    model.save_pretrained(out / "model")
    _write_rare(bags, texts, tokenizer, out / "model")
    captions = (caption for photo in photos for caption in photo.captions)
    write_spelling([*captions, *sentences], tokenizer, out / "model")
    with torch.inference_mode():
        scores = taught.scores(views.features[0][:SAMPLE].float(), torch.arange(len(bags.terms)))
    none = np.zeros(len(tokenizer.vocabulary), np.float32)
    TermOffsets(none, float(scores.max())).save(out / "model" / OFFSETS)
    return TrainResult(out / "model", found, config.epochs, config.epochs)


def _sentences(config: TermVectorsConfig, held_out: Sequence[CaptionedPhoto]) -> list[str]:
    """Those of the file, without captions of held-out photos."""
    if config.sentences is None:
        return []
    own = {caption for photo in held_out for caption in photo.captions}
    found = [text for text in read_sentences(config.sentences) if text not in own]
    order = np.random.default_rng(config.seed).permutation(len(found))
    return [found[place] for place in sorted(order[: config.most_sentences].tolist())]


@dataclass(frozen=True)
class _Run:
    """The steps of a training, each of which a killed run continues."""

    config: TermVectorsConfig
    stores: Sequence[FeatureStore]
    tokenizer: TermTokenizer
    kept: Path  # folder of what is finished
    progress: Progress

    def read(
        self, photos: Sequence[CaptionedPhoto], sentences: Sequence[str], name: str
    ) -> tuple[Views, Texts]:
        """Features of photos; their captions and further sentences, whose vectors are kept."""
        encoder, cache = str(self.config.model.init), self.kept / f"{name}.safetensors"
        views = Views.read(self.stores, photos, self.progress)
        return views, read_texts(photos, sentences, encoder, self.tokenizer, cache, self.progress)

    def teacher(self, number: int, views: Views, texts: Texts) -> DualEncoder:
        """One trained dual encoder, or the one that was trained before."""
        config, settings = self.config, self.config.teachers
        seed = config.seed * 1000 + number
        torch.manual_seed(seed)
        member = DualEncoder(config, views.features[0], texts, len(self.tokenizer.vocabulary))
        # Each has a checkpoint of its own: that of another would be taken for its beginning.
        done, unfinished = (self.kept / f"{name}-{number}.pt" for name in ("teacher", "unfinished"))
        if done.is_file():
            member.load_state_dict(torch.load(done, weights_only=True))
            return member.eval()
        rate = settings.learning_rate
        optimise(
            member,
            torch.optim.AdamW(member.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.1),
            lambda photos: member.loss(views.draw(photos), texts, photos),
            Plan(config, len(texts.first), settings.batch_size, settings.epochs, seed),
            unfinished,
            partial(self.progress, f"teacher {number + 1}"),
        )
        partial_file = done.with_suffix(".partial")
        torch.save(member.state_dict(), partial_file)
        partial_file.replace(done)
        unfinished.unlink(missing_ok=True)
        return member

    def student(
        self,
        members: list[DualEncoder],
        views: Views,
        texts: Texts,
        bags: Bags,
        validation: tuple[Views, Texts] | None,
    ) -> TermVectors:
        """Term vectors that the dual encoders teach."""
        config, unfinished = self.config, self.kept / STUDENT
        teachers = Teachers(members, views, texts)
        head = members[0].image
        with torch.no_grad():
            means = [head.direction(part.float()).mean(dim=0) for part in views.features]
        head.dropout.p = config.model.dropout
        taught = TermVectors(head, bags.ridge(teachers.texts[0]), torch.stack(means).mean(dim=0))

        def measure(epoch: int) -> None:
            assert validation
            say_recall(epoch, config.epochs, _recall(taught, bags, *validation))

        optimise(
            taught,
            taught.optimiser(config),
            partial(taught.loss, config, views, texts, bags, teachers),
            Plan(config, len(texts.first), config.batch_size, config.epochs, config.seed),
            unfinished,
            partial(self.progress, "terms"),
            measure if validation else None,
        )
        unfinished.unlink(missing_ok=True)
        return taught


@torch.inference_mode()
def _recall(taught: TermVectors, bags: Bags, views: Views, texts: Texts) -> list[float]:
    """R@1, R@5 and R@10 of held-out captions, text → image."""
    owners = texts.owners()
    scores = taught.scores(views.features[0].float(), torch.arange(len(bags.terms)))
    sums = torch.nn.functional.embedding_bag(
        bags.places[texts.terms[: len(owners)]],
        torch.nn.functional.pad(scores.T, (0, 0, 0, 1)),
        mode="sum",
        padding_idx=len(bags.terms),
    )
    return list(recall(ranks(sums, owners[:, None].tolist(), ties="by_id"))[:3])


def _model(
    taught: TermVectors, bags: Bags, tokenizer: TermTokenizer, source: FeatureSource
) -> VisualSparta:
    """The model folder's VisualSparta, compact."""
    head = ImageHeadConfig(
        len(tokenizer.vocabulary), taught.vectors.shape[1], taught.head.hidden.out_features
    )
    model = from_config(
        head, tokenizer, source, use_labels=False, use_locations=False, offset="none"
    )
    assert model.head is not None
    model.head.load_state_dict(taught.head.state_dict())
    with torch.no_grad():
        model.query_embedding.weight.zero_()
        model.query_embedding.weight[bags.terms] = taught.vectors
    model.term_frequencies.zero_()
    model.term_frequencies[bags.terms] = bags.frequencies
    model.trained_terms.copy_(model.term_frequencies > 0)
    model.make_compact()
    return model


def _write_rare(bags: Bags, texts: Texts, tokenizer: TermTokenizer, folder: Path) -> None:
    """List the terms that the captions of few training photos have."""
    counts = torch.zeros(len(tokenizer.vocabulary) + 1, dtype=torch.int64)
    for first, count in zip(texts.first, texts.count, strict=True):
        counts[torch.unique(texts.terms[first : first + count])] += 1
    rare = [tokenizer.vocabulary[term] for term in bags.terms.tolist() if counts[term] < PHOTOS]
    text = json.dumps({"photos": PHOTOS, "terms": rare}, ensure_ascii=False)
    (folder / RARE_TERMS).write_text(text, encoding="utf-8")


# ---- tuning the backbone -------------------------------------------------------------------------


def _tune(
    config: TermVectorsConfig,
    member: DualEncoder,
    texts: Texts,
    image_ids: Sequence[str],
    out: Path,
    progress: Progress,
) -> Path:
    """Train the backbone's later stages and the heads of a dual encoder on the photos themselves.

    The member was trained on the backbone's features. Returns the file `out/backbone.safetensors`,
    and reports progress of the stages "photos" and "tune".
    """
    settings, data = config.tune, config.data
    assert settings is not None and data.photos is not None and data.backbone is not None
    scale, device = scale_of(data.backbone), pick_device("auto")
    pixels = _read_pixels(data.photos, image_ids, scale.side, partial(progress, "photos"))
    network = EfficientNetLite.from_file(scale, weights_file(data.backbone))
    tuned = TunedEncoder(network, member, settings, pixels.to(device)).to(device)
    optimise(
        tuned,
        tuned.optimiser(),
        lambda photos: member.loss(tuned.draw(photos), texts, photos),
        Plan(config, len(image_ids), settings.batch_size, settings.epochs, config.seed),
        out / "checkpoints" / "tune.pt",
        partial(progress, "tune"),
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


# ---- steps of an optimiser with averaged weights, which a killed run continues -------------------


def batches(photos: int, size: int, seed: int, start: int) -> Iterator[Tensor]:
    """Batches of shuffled photos, epoch after epoch, from step `start` on; a rest is left out."""
    epoch_steps = photos // size
    for epoch in range(start // epoch_steps, np.iinfo(np.int32).max):
        order = torch.from_numpy(np.random.default_rng((seed, epoch)).permutation(photos))
        skipped = start - epoch * epoch_steps if epoch == start // epoch_steps else 0
        for step in range(skipped, epoch_steps):
            yield order[step * size : (step + 1) * size]


class Plan(NamedTuple):
    """How long and how a module is trained."""

    config: TermVectorsConfig  # largest norm of a gradient, decay of the moving average
    photos: int  # N
    batch_size: int  # of them
    epochs: int  # over them
    seed: int  # of all draws


def optimise(
    module: nn.Module,
    optimiser: Optimizer,
    loss: Callable[[Tensor], Tensor],
    plan: Plan,
    checkpoint: Path,
    progress: Callable[[int, int], None],
    measure: Callable[[int], None] | None = None,
) -> None:
    """Train a module, and leave it with the moving average of its weights, in eval mode.

    Every step's random draws depend on the seed and the step alone, so that a run that was killed
    ends with the weights of an uninterrupted one.

    The loss is of a batch of numbers of photos, and the optimiser has the largest learning rates.
    The checkpoint is the file to continue from and to save to. `progress` is called with the steps
    done, and all; `measure` after each epoch with its number, from 1, while the module has the
    averaged weights and is in eval mode.
    """
    config, photos, batch_size, epochs, seed = plan
    total = epochs * (photos // batch_size)
    factor = partial(learning_rate_factor, total=total, warmup=WARMUP / total, schedule="cosine")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
    mean = [one.detach().clone() for one in module.parameters()]
    parts: list[Part] = [module, optimiser, schedule]
    done = _restore(checkpoint, parts, mean)
    module.train()
    for step, batch in enumerate(batches(photos, batch_size, seed, done), done):
        if step == total:
            break
        torch.manual_seed(int(np.random.SeedSequence((seed, step)).generate_state(1)[0]))
        optimiser.zero_grad(set_to_none=True)
        value = loss(batch)
        if not value.isfinite():
            raise InputError(f"the loss is {value.item()} at step {step}: lower learning_rate")
        value.backward()
        nn.utils.clip_grad_norm_(module.parameters(), config.gradient_clip)
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            # Early on, weights count for more.
            decay = min(config.average, (2 + step) / (11 + step))
            torch._foreach_lerp_(mean, list(module.parameters()), 1 - decay)
        if (step + 1) % SAVE == 0:
            _save(checkpoint, step + 1, parts, mean)
        progress(step + 1, total)
        if measure and (step + 1) % (photos // batch_size) == 0:
            current = [one.detach().clone() for one in module.parameters()]
            _set(module, mean)
            measure((step + 1) // (photos // batch_size))
            _set(module, current)
            module.train()
    _set(module, mean)


@torch.no_grad()
def _set(module: nn.Module, weights: list[Tensor]) -> None:
    """Put a module into eval mode, with these weights."""
    for one, other in zip(module.parameters(), weights, strict=True):
        one.copy_(other)
    module.eval()


def _save(path: Path, step: int, parts: Sequence[Part], mean: list[Tensor]) -> None:
    states = [part.state_dict() for part in parts]
    unfinished = path.with_suffix(".partial")
    torch.save({"step": step, "parts": states, "mean": mean}, unfinished)
    unfinished.replace(path)


def _restore(path: Path, parts: Sequence[Part], mean: list[Tensor]) -> int:
    """Load a checkpoint if there is one; the steps done."""
    if not path.is_file():
        return 0
    state = torch.load(path, weights_only=True)
    for part, saved in zip(parts, state["parts"], strict=True):
        part.load_state_dict(saved)
    for one, saved in zip(mean, state["mean"], strict=True):
        one.copy_(saved)
    return int(state["step"])

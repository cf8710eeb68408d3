"""A training run from configuration to model folder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lightning as L
import numpy as np
import torch
import yaml
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    ModelCheckpoint,
    RichProgressBar,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations
from torch.utils.data import DataLoader
from transformers import BertConfig

from sparta.errors import InputError
from sparta.features.batch import ImageCollator
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.model import VisualSparta, count_terms, pad_ids
from sparta.weights import from_bert, from_config
from training.config import DataConfig, ModelConfig, TrainConfig
from training.data.captions import CaptionedPhoto, read_captions
from training.data.dataset import CaptionedFeatures, EpochSampler, TrainingBatch, TrainingCollator
from training.loop import SpartaTraining
from training.vocabulary import learn_vocabulary

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainResult:
    """Where the model lies, and its recall (percent) on the held-out photos, if there were any."""

    model: Path
    epochs: int
    recall: dict[str, float]


def train(config: TrainConfig, out: Path, resume: bool = False) -> TrainResult:
    """Train one model; `out` gets `model/`, `checkpoints/`, `logs/` and the `config.yaml` used.

    Raises:
        InputError: if features and captions do not fit together, `out` holds another run, or
            there is nothing to resume.
    """
    checkpoint = _prepare_folder(config, out, resume)
    L.seed_everything(config.seed, workers=True, verbose=False)
    views = _open_views(config.data.features)
    photos, held_out = split_photos(config.data, views, config.seed)
    model = build_model(config.model, views[0].source, photos)
    assert model.tokenizer is not None
    ids = [[model.tokenizer.encode_ids(text) for text in photo.captions] for photo in photos]
    model.trained_terms.zero_()
    model.trained_terms[sorted({i for texts in ids for text in texts for i in text})] = True
    module = SpartaTraining(model, config, _validation_terms(model, held_out))
    trainer = _trainer(config, out, bool(held_out))
    trainer.fit(
        module,
        _training_loader(config, views, photos, ids, model, trainer),
        _validation_loader(config, views[0], held_out, model) if held_out else None,
        ckpt_path=checkpoint,
        weights_only=True,
    )
    return _save_best(module, trainer, out)


def build_model(
    config: ModelConfig, source: FeatureSource, photos: Sequence[CaptionedPhoto]
) -> VisualSparta:
    """The network at the start: from a BERT-like checkpoint, or from nothing."""
    if config.init is not None:
        return from_bert(config.init, source, config.layers, **config.options)
    texts = (text for photo in photos for text in photo.captions)
    tokenizer = learn_vocabulary(texts, config.vocabulary_size)
    encoder = BertConfig(**{**config.encoder, "vocab_size": len(tokenizer.vocabulary)})
    return from_config(encoder, tokenizer, source, **config.options)


def split_photos(
    config: DataConfig, views: Sequence[FeatureStore], seed: int
) -> tuple[list[CaptionedPhoto], list[CaptionedPhoto]]:
    """Photos to train on and photos to choose by, both sorted by id and present in every view."""
    if config.captions is None:
        raise InputError("data.captions: name a captions.jsonl (--set data.captions=FILE)")
    photos = sorted(read_captions(config.captions, config.split), key=lambda p: p.image_id)
    held_out: list[CaptionedPhoto] = []
    if config.validation_split:
        held_out = read_captions(config.captions, config.validation_split)
    elif config.validation_photos:
        if config.validation_photos >= len(photos):
            raise InputError(
                f"data.validation_photos: {config.validation_photos} of "
                f"{len(photos)} photos leaves none to train on"
            )
        order = np.random.default_rng(seed).permutation(len(photos))
        chosen = set(order[: config.validation_photos].tolist())
        held_out = [p for i, p in enumerate(photos) if i in chosen]
        photos = [p for i, p in enumerate(photos) if i not in chosen]
    return _present(photos, views), _present(held_out, views)


def _present(photos: list[CaptionedPhoto], views: Sequence[FeatureStore]) -> list[CaptionedPhoto]:
    known = set.intersection(*(set(view.ids) for view in views))
    kept = sorted((p for p in photos if p.image_id in known), key=lambda p: p.image_id)
    if photos and not kept:
        raise InputError(
            f"no captioned photo is in the feature store: captions speak of "
            f"{photos[0].image_id!r}, the store holds {views[0].ids[0]!r}"
        )
    if len(kept) < len(photos):
        log.warning(
            "%d of %d captioned photos have no features and are left out",
            len(photos) - len(kept),
            len(photos),
        )
    return kept


def _open_views(folders: Sequence[Path]) -> list[FeatureStore]:
    if not folders:
        raise InputError("data.features: name a feature store (--set data.features=[DIR])")
    views = [FeatureStore.open(folder) for folder in folders]
    for folder, view in zip(folders, views, strict=True):
        if different := views[0].source.differences(view.source):
            raise InputError(f"{folder} is no view of {folders[0]}: {'; '.join(different)}")
    return views


def _prepare_folder(config: TrainConfig, out: Path, resume: bool) -> str | None:
    """Refuse to mix runs; return the checkpoint to resume from."""
    used, text = out / "config.yaml", yaml.safe_dump(config.model_dump(mode="json"))
    last = out / "checkpoints" / "last.ckpt"
    if resume:
        if not last.is_file():
            raise InputError(f"{out} holds no run to resume: {last} is missing")
        if used.read_text(encoding="utf-8") != text:
            raise InputError(f"{used} differs from this run's settings: resume with those")
        return str(last)
    if used.exists():
        raise InputError(f"{out} holds a run already: add --resume, or choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    used.write_text(text, encoding="utf-8")
    return None


def _validation_terms(
    model: VisualSparta, photos: Sequence[CaptionedPhoto]
) -> tuple[object, torch.Tensor] | None:
    if not photos:
        return None
    assert model.tokenizer is not None
    texts = [text for photo in photos for text in photo.captions]
    queries = count_terms(*pad_ids(map(model.tokenizer.encode_ids, texts), "cpu"))
    columns = [i for i, photo in enumerate(photos) for _ in photo.captions]
    return queries, torch.tensor(columns)


def _training_loader(
    config: TrainConfig,
    views: Sequence[FeatureStore],
    photos: Sequence[CaptionedPhoto],
    captions: Sequence[list[list[int]]],
    model: VisualSparta,
    trainer: L.Trainer,
) -> DataLoader[TrainingBatch]:
    data = config.data
    dataset = CaptionedFeatures(
        views,
        [photo.image_id for photo in photos],
        captions,
        config.seed,
        data.captions_per_photo,
        data.word_dropout,
        data.region_dropout,
    )
    world = trainer.world_size
    if config.batch_size % world or config.batch_size > len(photos):
        raise InputError(
            f"batch_size: {config.batch_size} must be a multiple of {world} devices "
            f"and at most the {len(photos)} training photos"
        )
    return DataLoader(
        dataset,
        batch_size=config.batch_size // world,
        sampler=EpochSampler(len(photos), config.seed, trainer.global_rank, world),
        collate_fn=TrainingCollator(_image_collator(model)),
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        drop_last=True,
        pin_memory=torch.cuda.is_available(),
    )


def _image_collator(model: VisualSparta) -> ImageCollator:
    assert model.tokenizer is not None
    return ImageCollator(model.tokenizer, model.config.max_regions, model.config.max_label_tokens)


def _validation_loader(
    config: TrainConfig, view: FeatureStore, photos: Sequence[CaptionedPhoto], model: VisualSparta
) -> DataLoader[ImageFeatures]:
    images = [view.index(photo.image_id) for photo in photos]
    return DataLoader(
        torch.utils.data.Subset(view, images),
        batch_size=64,
        collate_fn=_image_collator(model),
        num_workers=min(config.workers, 2),
        persistent_workers=config.workers > 0,
    )


def _trainer(config: TrainConfig, out: Path, validated: bool) -> L.Trainer:
    best = {"monitor": "val_recall", "mode": "max"} if validated else {}
    callbacks: list[Callback] = [
        ModelCheckpoint(
            out / "checkpoints", "best" if validated else "final", save_last=True, **best
        ),
        RichProgressBar(),
    ]
    if config.average:
        callbacks.append(EMAWeightAveraging(decay=config.average))
    if config.patience and validated:
        callbacks.append(EarlyStopping(patience=config.patience, **best))
    precision = config.precision
    if precision == "auto":
        precision = "bf16-mixed" if torch.cuda.is_available() else "32-true"
    return L.Trainer(
        accelerator=config.accelerator,
        devices=config.devices,
        precision=precision,
        max_epochs=config.epochs,
        gradient_clip_val=config.gradient_clip or None,
        callbacks=callbacks,
        logger=[CSVLogger(out, "logs", ""), TensorBoardLogger(out, "tensorboard", "")],
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        enable_model_summary=False,
    )


def _save_best(module: SpartaTraining, trainer: L.Trainer, out: Path) -> TrainResult:
    """Write the best checkpoint (the last one without validation) as a model folder."""
    checkpoint = trainer.checkpoint_callback
    assert isinstance(checkpoint, ModelCheckpoint)
    state = torch.load(checkpoint.best_model_path, map_location="cpu", weights_only=True)
    module.load_state_dict(state["state_dict"])
    model = module.model
    if is_parametrized(model.query_embedding):
        remove_parametrizations(model.query_embedding, "weight", leave_parametrized=True)
    if trainer.is_global_zero:
        model.save_pretrained(out / "model")
    scores = {name: float(v) for name, v in trainer.callback_metrics.items() if "val" in name}
    return TrainResult(out / "model", trainer.current_epoch, scores)

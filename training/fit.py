"""Carrying out a training run: from settings to the model folder."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import lightning as L
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

from sparta.errors import InputError
from training.config import LightningConfig, TrainConfig
from training.inputs import ImageIds, open_stores, record_stores, split_photos
from training.module import ProcessPart, Run, TrainingModule
from training.terms.config import TermVectorsConfig
from training.terms.fit import train_term_vectors
from training.visualsparta.prepare import prepare_visualsparta
from training.vse.config import VseTrainConfig
from training.vse.photos import open_photos
from training.vse.prepare import prepare_vse

SIZE = 256  # bytes, more than any system's struct sigaction has
LAST = "last"
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]


@dataclass(frozen=True)
class TrainResult:
    """The model folder, recall on the held-out photos in percent, if any, and epochs trained."""

    model: Path
    recall: dict[str, float]
    epochs: int


def train(config: TrainConfig, out: Path, resume: bool = False) -> TrainResult:
    """Train one model and write it to `out/model`.

    Args:
        config: settings of the run.
        out: folder of the run; also gets `checkpoints/`, logs, `config.yaml` and `features.json`.
        resume: continue the interrupted run in `out`.

    Raises:
        InputError: if features and captions do not belong together, `out` holds another run, or
            there is nothing to resume.
    """
    checkpoint = _prepare_folder(config, out, resume)
    L.seed_everything(config.seed, workers=True, verbose=False)
    if isinstance(config, TermVectorsConfig):
        stores = open_stores(config.data, out)
        record_stores(stores, out, resume)
        parts = split_photos(config.data, stores, config.seed)
        return TrainResult(*train_term_vectors(config, stores, out, *parts), config.epochs)
    images, prepare_run = _open(config, out, resume)
    photos, held_out = split_photos(config.data, images, config.seed, config.needs_captions)
    best = _best_checkpoint(out) if held_out else None
    trainer = _trainer(config, out, best)
    part = ProcessPart(trainer.global_rank, trainer.world_size, _first_epoch(checkpoint))
    run = prepare_run(photos, held_out, part)
    with keep_java_handlers():
        trainer.fit(
            run.module, run.training, run.validation, ckpt_path=checkpoint, weights_only=True
        )
    return _save(run.module, trainer, best, out)


def _open(
    config: LightningConfig, out: Path, resume: bool
) -> tuple[Sequence[ImageIds], Callable[..., Run]]:
    """The run's images, and the function that prepares the run from them and the captions."""
    if isinstance(config, VseTrainConfig) and config.has_vision_network:
        folder = open_photos(config, out)
        return [folder], partial(prepare_vse, config, folder)
    stores = open_stores(config.data, out)
    record_stores(stores, out, resume)
    if isinstance(config, VseTrainConfig):
        return stores, partial(prepare_vse, config, stores)
    return stores, partial(prepare_visualsparta, config, stores, out)


def _prepare_folder(config: TrainConfig, out: Path, resume: bool) -> str | None:
    """Write the run's settings, or find the checkpoint to resume from; refuse to mix runs.

    Returns:
        the checkpoint; None for a new run, or one that was interrupted before its first one.
    """
    used, text = out / "config.yaml", yaml.safe_dump(config.model_dump(mode="json"))
    last = out / "checkpoints" / f"{LAST}.ckpt"
    if resume:
        if not used.is_file():
            raise InputError(f"{out} holds no run to resume: {used} is missing")
        if used.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{used} differs from these settings: resume a run with its own settings"
            )
        return str(last) if last.is_file() else None
    if any(last.parent.glob("*")) or (out / "model").exists():
        raise InputError(f"{out} holds a run already: add --resume, or choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    used.write_text(text, encoding="utf-8")
    return None


def _first_epoch(checkpoint: str | None) -> int:
    if checkpoint is None:
        return 0
    state = torch.load(checkpoint, map_location="cpu", mmap=True, weights_only=True)
    return int(state["epoch"]) + 1


def _best_checkpoint(out: Path) -> ModelCheckpoint:
    # Not weights only: Lightning stores the averaged weights, which were evaluated, in whole
    # checkpoints alone.
    return ModelCheckpoint(
        out / "checkpoints",
        "best",
        monitor="val_recall",
        mode="max",
        enable_version_counter=False,
    )


class _Averaging(EMAWeightAveraging):
    """Ends with the averaged weights even if a resumed run has no epoch left to train."""

    on_fit_end = EMAWeightAveraging.on_train_end


def _callbacks(config: LightningConfig, out: Path, best: ModelCheckpoint | None) -> list[Callback]:
    # Written at the end of epochs only: from there a resumed run repeats the random draws of an
    # uninterrupted one.
    last = ModelCheckpoint(
        out / "checkpoints",
        LAST,
        every_n_epochs=config.checkpoint_epochs,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    # The best one first: the last checkpoint holds its state, which a resumed run goes on with.
    callbacks: list[Callback] = [RichProgressBar(), *([] if best is None else [best]), last]
    if config.average:
        # Buffers hold positions and flags: integers, which averaging would round.
        callbacks.append(_Averaging(decay=config.average, use_buffers=False))
    if best is not None and config.patience:
        callbacks.append(EarlyStopping("val_recall", patience=config.patience, mode="max"))
    return callbacks


def _trainer(config: LightningConfig, out: Path, best: ModelCheckpoint | None) -> L.Trainer:
    automatic: Precision = "bf16-mixed" if torch.cuda.is_available() else "32-true"
    return L.Trainer(
        accelerator=config.accelerator,
        devices=config.devices,
        num_nodes=_machines(),
        strategy=_strategy(config),
        precision=automatic if config.precision == "auto" else config.precision,
        max_epochs=config.epochs,
        gradient_clip_val=config.gradient_clip or None,
        callbacks=_callbacks(config, out, best),
        # The logger never appends: a resumed run logs into the next version.
        logger=[CSVLogger(out, "logs"), TensorBoardLogger(out, "tensorboard", "")],
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        enable_model_summary=False,
    )


def _machines() -> int:
    """How many machines torchrun started this run on; 1 without it."""
    return int(os.environ.get("GROUP_WORLD_SIZE", "1"))


def _strategy(config: LightningConfig) -> str:
    """How Lightning runs several processes.

    Data-parallel training expects a gradient for every parameter unless it is set otherwise. A
    frozen vision network has none, and parts such as its pooler never have one.
    """
    devices = torch.cuda.device_count() if config.devices == "auto" else config.devices
    vision = isinstance(config, VseTrainConfig) and config.has_vision_network
    return "ddp_find_unused_parameters_true" if vision and devices * _machines() > 1 else "auto"


def _save(
    module: TrainingModule, trainer: L.Trainer, best: ModelCheckpoint | None, out: Path
) -> TrainResult:
    """Save the best weights (the last ones if no photos are held out) as a model folder."""
    recall: dict[str, float] = {}
    if best is not None:
        state = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
        module.load_state_dict(state["state_dict"])
        recall = {"held-out mean of R@1, R@5, R@10": float(best.best_model_score or 0)}
    if trainer.is_global_zero:
        module.finished_model().save_pretrained(out / "model")
    return TrainResult(out / "model", recall, trainer.current_epoch)


@contextmanager
def keep_java_handlers() -> Iterator[None]:
    """Restore the handlers of the signals that Java uses for null pointers and the like.

    When training ends, Lightning sets every signal handler to the one in Python's table. Java's
    handlers are not in that table: a Java machine in the same process would lose them and be
    killed by the next such signal.
    """
    if sys.platform == "win32":  # which has no such signals
        yield
        return
    libc = ctypes.CDLL(None)
    saved = {
        number: ctypes.create_string_buffer(SIZE)
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    }
    for number, handler in saved.items():
        libc.sigaction(number, None, handler)
    try:
        yield
    finally:
        for number, handler in saved.items():
            libc.sigaction(number, handler, None)

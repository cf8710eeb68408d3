"""Carrying out a training run: from settings to the model folder."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    ModelCheckpoint,
    RichProgressBar,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError, first_line
from sparta.extract.photos import find_photos
from sparta.model_id import pinned_name
from sparta.networks.encoder import is_lite
from training.config import LightningConfig, TrainConfig
from training.inputs import PhotoList, open_stores, record_stores, split_photos
from training.module import ProcessPart, Run, TrainingModule
from training.run_folder import (
    TrainResult,
    resumed_settings,
    save_held_out,
    save_settings,
    say,
)
from training.terms.config import TermVectorsConfig
from training.terms.fit import check_term_vectors, forget_term_vectors, train_term_vectors
from training.visualsparta.module import OSCAR, check_visualsparta, prepare_visualsparta
from training.vse.config import VseTrainConfig
from training.vse.data import check_photo_settings, open_photos
from training.vse.module import check_vse, prepare_vse

SIZE = 256  # bytes, more than any system's struct sigaction has
LAST = "last"
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]


def train(config: TrainConfig, out: Path, resume: bool = False) -> TrainResult:
    """Train one model and write it to `out/model`.

    Args:
        config: settings of the run.
        out: folder of the run; also gets `checkpoints/`, logs, `config.yaml`, `features.json`,
            `held-out.jsonl` and `result.json`.
        resume: continue the interrupted run in `out`, or one that is to train more epochs. A
            finished run stays as it is.

    Raises:
        InputError: if features and captions do not belong together, a setting does not fit them
            or this machine, `out` holds another run, or there is nothing to resume.
    """
    changed: set[str] = set()
    if resume:
        config, changed = resumed_settings(config, out)
        if finished := _finished(config, out):
            return finished
    elif any((out / "checkpoints").glob("*")) or (out / "model").exists():
        raise InputError(f"{out} holds a run already: add --resume, or choose another --out")
    # All that can be known is checked before the long work.
    if not isinstance(config, TermVectorsConfig):
        _check_machine(config)
    listed = _list(config)
    photos, held_out = split_photos(config.data, listed, config.seed)
    config = pinned(config)
    if isinstance(config, TermVectorsConfig):
        check_term_vectors(config, photos)
    elif isinstance(config, VseTrainConfig):
        check_vse(config, photos)
    else:
        check_visualsparta(config, photos)
    checkpoint = _checkpoint(config, out) if resume else None
    out.mkdir(parents=True, exist_ok=True)
    save_settings(config, out)
    if resume and "epochs" in changed:
        _explain_schedule(config, out)
    L.seed_everything(config.seed, workers=True, verbose=False)
    there, carry_out = _open(config, out, resume, checkpoint)
    if there.ids != listed.ids:  # photos that cannot be read are left out
        photos, held_out = split_photos(config.data, there, config.seed)
    save_held_out(held_out, len(photos) + len(held_out), out)
    result = carry_out(photos, held_out)
    result.save(out)
    return result


# ---- before the long work ------------------------------------------------------------------------


def _check_machine(config: LightningConfig) -> None:
    """Refuse accelerators, devices and precisions that this machine lacks."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    there = {"auto": True, "cpu": True, "gpu": cuda or mps, "cuda": cuda, "mps": mps}
    kind, count = config.accelerator, config.devices
    if not there[kind]:
        found = ", ".join(name for name, is_there in there.items() if is_there)
        raise InputError(f"accelerator: this machine has no {kind} for torch: set one of {found}")
    on_cpu = kind == "cpu" or not (cuda or mps)
    most = (os.cpu_count() or 1) if on_cpu else torch.cuda.device_count() if cuda else 1
    if count != "auto" and count > most:
        what = "processor cores" if on_cpu else "GPUs"
        raise InputError(f"devices: {count} are more than the {most} {what} of this machine")
    if config.precision == "16-mixed" and on_cpu:
        raise InputError("precision: 16-mixed needs a GPU: set auto, 32-true or bf16-mixed")


def _list(config: TrainConfig) -> PhotoList:
    """The run's photos, before anything is extracted from them."""
    if isinstance(config, VseTrainConfig):
        check_photo_settings(config)
    data, reads_photos = config.data, _has_vision_network(config)
    if data.photos and not (data.features or data.backbone or reads_photos):
        raise InputError("data.backbone: give the backbone that extracts features from data.photos")
    if data.photos is not None and not data.features:
        return PhotoList(data.photos, sorted(find_photos(data.photos)))
    return PhotoList.of(open_stores(data, Path()))


def _has_vision_network(config: TrainConfig) -> bool:
    return isinstance(config, VseTrainConfig) and config.has_vision_network


def pinned(config: TrainConfig) -> TrainConfig:
    """The settings, in which models on the hub have the names of their commits."""

    def pin(key: str, name: str) -> str:
        try:
            return pinned_name(name)
        except InputError as error:
            raise InputError(f"{key}: {error}") from error

    config = config.model_copy(deep=True)
    data, model = config.data, config.model
    if data.photos and data.backbone and not is_lite(data.backbone) and data.backbone != "pixels":
        data.backbone = pin("data.backbone", data.backbone)
    if model.init is not None and not model.init.startswith(OSCAR):
        model.init = pin("model.init", model.init)
    if isinstance(config, VseTrainConfig) and config.has_vision_network:
        options = config.model.options
        options["vision"] = pin("model.options.vision", str(options["vision"]))
    return config


def _finished(config: TrainConfig, out: Path) -> TrainResult | None:
    """What came of a run that is finished, None if there are epochs to train."""
    done = TrainResult.read(out)
    planned = config.planned_epochs
    if done is None or planned > done.planned:
        return None
    if planned < done.planned:
        raise InputError(f"epochs: {planned}: {out} is finished, of {done.planned} epochs")
    say(f"{out} is finished: {done.epochs} of {done.planned} epochs")
    return done


def _checkpoint(config: TrainConfig, out: Path) -> str | None:
    """The checkpoint to resume from; None for a run that was interrupted before its first one."""
    last = out / "checkpoints" / f"{LAST}.ckpt"
    if not last.is_file():
        return None
    first = _first_epoch(str(last))
    if first > config.epochs:
        raise InputError(f"epochs: {config.epochs}: {out} has trained {first} already")
    say(f"{out} goes on after epoch {first} of {config.epochs}")
    return str(last)


def _explain_schedule(config: TrainConfig, out: Path) -> None:
    """Say what more epochs do to a learning rate that falls to 0 at the end."""
    if isinstance(config, TermVectorsConfig):
        forget_term_vectors(out)
        say("The teachers are kept, and the term vectors trained from their start.")
    elif config.schedule in ("linear", "cosine"):
        say(
            f"The learning rate goes on where the {config.schedule} schedule of {config.epochs} "
            "epochs has it now: the model will not be that of one run of so many epochs."
        )


# ---- the long work -------------------------------------------------------------------------------


def _open(
    config: TrainConfig, out: Path, resume: bool, checkpoint: str | None
) -> tuple[PhotoList, Callable[..., TrainResult]]:
    """The run's photos, and the function that trains on some and holds others out."""
    prepare: Callable[..., Run]
    if isinstance(config, VseTrainConfig) and config.has_vision_network:
        folder = open_photos(config, out)
        prepare = partial(prepare_vse, config, folder)
        return PhotoList.of([folder]), partial(_fit, config, out, checkpoint, prepare)
    stores = open_stores(config.data, out)
    record_stores(stores, out, resume)
    if isinstance(config, TermVectorsConfig):
        return PhotoList.of(stores), partial(train_term_vectors, config, stores, out)
    if isinstance(config, VseTrainConfig):
        prepare = partial(prepare_vse, config, stores)
    else:
        prepare = partial(prepare_visualsparta, config, stores)
    return PhotoList.of(stores), partial(_fit, config, out, checkpoint, prepare)


def _fit(
    config: LightningConfig,
    out: Path,
    checkpoint: str | None,
    prepare: Callable[..., Run],
    photos: Sequence[CaptionedPhoto],
    held_out: Sequence[CaptionedPhoto],
) -> TrainResult:
    """Train a model by Lightning."""
    best = _best_checkpoint(out) if held_out else None
    try:
        trainer = _trainer(config, out, best)
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        raise InputError(f"accelerator, devices or precision: {first_line(error)}") from error
    part = ProcessPart(trainer.global_rank, trainer.world_size, _first_epoch(checkpoint))
    run = prepare(photos, held_out, part)
    with keep_java_handlers():
        trainer.fit(
            run.module, run.training, run.validation, ckpt_path=checkpoint, weights_only=True
        )
    return _save(run.module, run.training, trainer, best, out, config.epochs)


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
    on_gpu = torch.cuda.is_available() and config.accelerator not in ("cpu", "mps")
    automatic: Precision = "bf16-mixed" if on_gpu else "32-true"
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
    vision = _has_vision_network(config)
    return "ddp_find_unused_parameters_true" if vision and devices * _machines() > 1 else "auto"


def _save(
    module: TrainingModule,
    training: Iterable[Any],
    trainer: L.Trainer,
    best: ModelCheckpoint | None,
    out: Path,
    planned: int,
) -> TrainResult:
    """Save the best weights (the last ones if no photos are held out) as a model folder."""
    recall: dict[str, float] = {}
    if best is not None:
        state = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
        module.load_state_dict(state["state_dict"])
        recall = {"held-out mean of R@1, R@5, R@10": float(best.best_model_score or 0)}
    if trainer.is_global_zero:
        module.finish(out / "model", training)
    return TrainResult(out / "model", recall, trainer.current_epoch, planned)


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

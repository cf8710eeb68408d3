"""Steps of an optimiser with averaged weights, which a killed run continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from sparta.errors import InputError
from training.module import learning_rate_factor
from training.terms.config import TermVectorsConfig

Part: TypeAlias = nn.Module | Optimizer | LRScheduler  # of a checkpoint

WARMUP = 50  # steps in which the learning rate rises
SAVE = 100  # steps between checkpoints


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

"""Base class of the Lightning modules, and the learning rate schedules."""

from __future__ import annotations

import math
from typing import Any, Literal

import lightning as L
import numpy as np
import torch
from transformers import PreTrainedModel

from sparta.errors import InputError
from training.run_config import RunConfig

Schedule = Literal["constant", "linear", "cosine"]


class TrainingModule(L.LightningModule):
    """A model in training; its random draws depend only on seed, step and process."""

    model: PreTrainedModel
    config: RunConfig

    def on_train_batch_start(self, batch: Any, step: int) -> None:
        """Seed dropout by seed, step and process: a resumed run repeats an uninterrupted one.

        Seeding once per epoch is not enough: the data loader draws from the same generator, before
        or after that point.
        """
        source = np.random.SeedSequence((self.config.seed, self.global_step, self.global_rank))
        torch.manual_seed(int(source.generate_state(1)[0]))

    def on_train_epoch_end(self) -> None:
        """Stop a diverged run, rather than save its model.

        Raises:
            InputError: if a weight is not finite.
        """
        for name, parameter in self.model.named_parameters():
            if not parameter.isfinite().all():
                raise InputError(
                    f"{name} is not finite after epoch {self.current_epoch}: lower learning_rate, "
                    "or check the features for values that are not finite"
                )

    def finished_model(self) -> PreTrainedModel:
        """The model to save."""
        return self.model


def learning_rate_factor(step: int, total: int, warmup: float, schedule: Schedule) -> float:
    """Factor on the learning rate at a step: linear warm-up, then the schedule's decay to 0.

    Args:
        step: from 0.
        total: steps of the run.
        warmup: share of the steps in which the rate rises.
        schedule: how the rate decays after the warm-up.
    """
    rise = max(1, round(total * warmup))
    if step < rise:
        return (step + 1) / rise
    done = min(1.0, (step - rise) / max(1, total - rise))
    if schedule == "constant":
        return 1.0
    if schedule == "linear":
        return 1.0 - done
    return 0.5 * (1 + math.cos(math.pi * done))

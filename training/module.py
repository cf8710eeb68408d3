"""What the training modules of all model families share."""

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
    """A model being trained, whose random draws depend on seed, step and process alone."""

    model: PreTrainedModel
    config: RunConfig

    def on_train_batch_start(self, batch: Any, step: int) -> None:
        """Tie dropout to seed, step and process: a resumed run repeats the unbroken one.

        Once an epoch would not do: the loader's own draws come before or after it, as it happens.
        """
        source = np.random.SeedSequence((self.config.seed, self.global_step, self.global_rank))
        torch.manual_seed(int(source.generate_state(1)[0]))

    def on_train_epoch_end(self) -> None:
        """Stop a run that went astray, rather than save a model of it.

        Raises:
            InputError: if a weight is not finite.
        """
        for name, parameter in self.model.named_parameters():
            if not parameter.isfinite().all():
                raise InputError(
                    f"{name} is not finite after epoch {self.current_epoch}: lower learning_rate, "
                    "or look for values in the features that are not finite"
                )

    def finished_model(self) -> PreTrainedModel:
        """The model as it is saved."""
        return self.model


def learning_rate_factor(step: int, total: int, warmup: float, schedule: Schedule) -> float:
    """Share of the full learning rate at a step: a linear rise, then the schedule's fall to 0.

    Args:
        step: from 0.
        total: steps of the run.
        warmup: share of the steps in which the rate rises.
        schedule: how it falls.
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

"""A prepared training run, as the model families build it and the trainer takes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.utils.data import DataLoader

from training.module import TrainingModule


class ProcessPart(NamedTuple):
    """One process's part of a run.

    Attributes:
        rank: number of the process.
        world: how many processes share the run.
        epoch: the epoch the run starts with, above 0 when it is resumed.
    """

    rank: int
    world: int
    epoch: int


class Run(NamedTuple):
    """What the trainer needs; `validation` is None if no photos are held out."""

    module: TrainingModule
    training: DataLoader[Any]
    validation: DataLoader[Any] | None

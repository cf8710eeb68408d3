"""What trainings share: the Lightning module, samplers, dropout, and batches over processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import lightning as L
import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn as dist_nn
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset, Sampler, Subset
from transformers import PreTrainedModel

from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.metrics import Recall
from sparta.vse.encoders import PhotoFolder
from training.run_config import RunConfig
from training.run_folder import say_recall

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
        """Stop a diverged run, rather than save its model."""
        for name, parameter in self.model.named_parameters():
            if not parameter.isfinite().all():
                raise InputError(
                    f"{name} is not finite after epoch {self.current_epoch}: lower learning_rate, "
                    "or check the features for values that are not finite"
                )

    def log_recall(self, found: Recall, mean: float) -> None:
        """Log and print R@1, R@5 and R@10 of captions; the mean selects the best checkpoint."""
        self.log("val_recall_1", found.at_1, prog_bar=True)
        self.log("val_recall_5", found.at_5)
        self.log("val_recall_10", found.at_10, prog_bar=True)
        self.log("val_recall", mean)
        say_recall(self.current_epoch + 1, self.config.epochs, found[:3])

    def scheduled(self, optimiser: Optimizer, warmup: float, schedule: Schedule) -> Any:
        """An optimiser whose rates rise and fall; see `learning_rate_factor`."""
        total = int(self.trainer.estimated_stepping_batches)
        factor = partial(learning_rate_factor, total=total, warmup=warmup, schedule=schedule)
        steps = torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": steps, "interval": "step"}}

    def finish(self, folder: Path, training: Iterable[Any]) -> None:
        """Save the trained model; `training` are the batches that it was trained on."""
        self.model.save_pretrained(folder)


def learning_rate_factor(step: int, total: int, warmup: float, schedule: Schedule) -> float:
    """Factor on the learning rate at a step: linear warm-up, then the schedule's decay to 0.

    `step` counts from 0; the rate rises in a share `warmup` of the `total` steps.
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


class ProcessPart(NamedTuple):
    """One process's part of a run."""

    rank: int  # number of the process
    world: int  # how many processes share the run
    epoch: int  # the epoch the run starts with, above 0 when it is resumed


class Run(NamedTuple):
    """What the trainer needs; `validation` is None if no photos are held out."""

    module: TrainingModule
    training: DataLoader[Any]
    validation: DataLoader[Any] | None


class EpochSampler(Sampler[tuple[int, ...]]):
    """Shuffled (epoch, photo) keys for process `rank` of `world`.

    The key includes the epoch, so that every draw is a function of seed, epoch and photo: loader
    processes that persist over epochs and resumed runs give the same draws.
    """

    # Draws where each photo stands, such as `near_by_label`; None for a random order.
    places: Callable[[np.random.Generator], Sequence[int]] | None = None

    def __init__(self, size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        self.size, self.seed, self.rank, self.world = size, seed, rank, world
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration; the trainer calls this before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        keys = self._keys(np.random.default_rng((self.seed, self.epoch)))
        part = keys[: len(self) * self.world][self.rank :: self.world]
        return iter([(self.epoch, *key) for key in part])

    def _keys(self, rng: np.random.Generator) -> list[tuple[int, ...]]:
        return [(photo,) for photo in self._shuffled(np.arange(self.size), rng)]

    def _shuffled(self, photos: NDArray[np.int64], rng: np.random.Generator) -> list[int]:
        order: list[int] = rng.permutation(photos).tolist()
        if self.places is not None:
            order.sort(key=self.places(rng).__getitem__)
        return order

    def __len__(self) -> int:
        return self.size // self.world


class PairSampler(EpochSampler):
    """Shuffled (epoch, photo, caption) keys; an epoch contains every pair.

    An epoch consists of rounds over the photos, with another caption of each photo in every round,
    so that a batch has two captions of one photo only at the border of two rounds.

    Args:
        captions: how many each photo has.
    """

    def __init__(self, captions: Sequence[int], seed: int, rank: int = 0, world: int = 1) -> None:
        super().__init__(sum(captions), seed, rank, world)
        self.captions = np.asarray(captions)

    def _keys(self, rng: np.random.Generator) -> list[tuple[int, ...]]:
        most = int(self.captions.max())
        draw = rng.random((len(self.captions), most))
        draw[np.arange(most) >= self.captions[:, None]] = 2  # sorted behind the captions
        order = draw.argsort(axis=1)
        return [
            (photo, int(order[photo, number]))
            for number in range(most)
            for photo in self._shuffled(np.flatnonzero(self.captions > number), rng)
        ]


def near_by_label(labels: Sequence[Sequence[str]]) -> Callable[[np.random.Generator], list[int]]:
    """What draws a place for each of N photos, that of one of its labels.

    Photos that share a label then are each other's negatives (VisualSparta section 3.2). Rare
    labels are drawn more often, as most photos have the common ones. Raises InputError if no photo
    has a label; "" is none.
    """
    own = [sorted({*names} - {""}) or [""] for names in labels]
    counts = Counter(chain.from_iterable(own))
    if counts.keys() == {""}:
        raise InputError("data.negatives: labels needs features with labels, such as a detector's")

    def draw(rng: np.random.Generator) -> list[int]:
        ranks = dict(zip(counts, rng.permutation(len(counts)).tolist(), strict=True))
        # The least of exponential variables is each in proportion to its rate, 1 / count.
        return [ranks[min(names, key=lambda one: counts[one] * rng.exponential())] for names in own]

    return draw


def check_batch_size(size: int, examples: int, what: str, world: int = 1) -> None:
    """Refuse a batch size that is no multiple of the processes, or exceeds an epoch's examples."""
    if size % world:
        raise InputError(f"batch_size: {size} must be a multiple of the {world} devices")
    if size > examples:
        raise InputError(f"batch_size: {size} is more than the {examples} training {what}")


def batches(
    config: RunConfig,
    dataset: Dataset[Any],
    sampler: EpochSampler,
    collate: Callable[[Any], Any],
    part: ProcessPart,
    what: str,
) -> DataLoader[Any]:
    """Batches of training examples for one process."""
    check_batch_size(config.batch_size, sampler.size, what, part.world)
    # Loader processes fetch the first examples before the trainer sets the sampler's epoch.
    sampler.set_epoch(part.epoch)
    return DataLoader(
        dataset,
        batch_size=config.batch_size // part.world,
        sampler=sampler,
        collate_fn=collate,
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        drop_last=True,
        pin_memory=torch.cuda.is_available(),
    )


def validation_batches(
    config: RunConfig,
    images: FeatureStore | PhotoFolder,
    photos: Sequence[CaptionedPhoto],
    collate: Callable[[Any], Any],
) -> DataLoader[Any] | None:
    """Batches of the held-out photos in order; None if there are none."""
    if not photos:
        return None
    rows = [images.index(photo.image_id) for photo in photos]
    return DataLoader(
        Subset(images, rows),  # type: ignore[arg-type]  # both have the methods of a Dataset
        batch_size=64,
        collate_fn=collate,
        num_workers=min(config.workers, 2),
        persistent_workers=config.workers > 0,
    )


# ---- random dropout ------------------------------------------------------------------------------


def drop_regions(image: ImageFeatures, chance: float, rng: np.random.Generator) -> ImageFeatures:
    """Drop each region with the given probability; at least one stays."""
    if not chance:
        return image
    return select_regions(image, remaining(len(image.features), chance, rng))


def select_regions(image: ImageFeatures, rows: NDArray[np.int64]) -> ImageFeatures:
    """The image with only these of its regions."""
    return replace(
        image,
        features=image.features[rows],
        boxes=image.boxes[rows],
        labels=tuple(np.array(image.labels, object)[rows]),
        attributes=tuple(np.array(image.attributes, object)[rows]),
    )


def drop_words(ids: list[int], chance: float, rng: np.random.Generator) -> list[int]:
    """Drop each term with the given probability; at least one stays."""
    return [ids[i] for i in remaining(len(ids), chance, rng)] if chance and ids else ids


def remaining(n: int, chance: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of n >= 1 that stay when each is dropped with the given probability: at least one."""
    kept = np.flatnonzero(rng.random(n) >= chance)
    return kept if len(kept) else rng.integers(n, size=1)


# ---- in-batch negatives across processes: each scores its photos against all captions -----------


def gather_columns(columns: Tensor) -> Tensor:
    """Concatenate the [R, b] tensors of all processes to [R, B]; gradients flow back.

    Every process then computes the same loss over all B columns. A column's gradient is summed
    over the processes and data-parallel training divides it by their number, which gives the
    exact gradient of the whole batch.
    """
    if not dist.is_initialized():
        return columns
    columns = columns.contiguous()
    if columns.requires_grad:
        return torch.cat(dist_nn.all_gather(columns), dim=1)
    parts = [torch.empty_like(columns) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, columns)
    return torch.cat(parts, dim=1)


def gather_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenate the captions [q, L] of all processes to [Q, longest L]; ids and mask."""
    if not dist.is_initialized():
        return ids, mask
    longest = torch.tensor(ids.shape[1], device=ids.device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    width = (0, int(longest) - ids.shape[1])
    rows = [gather_columns(pad(part.long(), width).T).T for part in (ids, mask)]
    return rows[0], rows[1].bool()

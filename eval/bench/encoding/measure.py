"""Time of encoding, in parts and as a whole, and of a training step, for each variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from eval.bench.encoding.device import (
    flops_of,
    name_of,
    peak_memory,
    peak_of,
    product_rate,
    seconds_of,
)
from eval.bench.encoding.encode_speed import (
    TRAINING,
    TRANSFORMER,
    VOCABULARY,
    WHOLE,
    EncodeSpeed,
    Figure,
)
from eval.bench.encoding.random_model import ModelSize, make_captions, make_images, make_model
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.visualsparta.model import VisualSparta

# A part, terms matched at once, and a function that runs it for one batch.
Job: TypeAlias = tuple[str, int | None, Callable[[], object]]
STEPS = 3  # of training, of which the mean counts
SIDES = {"cuda": 8192, "cpu": 1024}  # of the matrices whose product is a chip's best


@dataclass(frozen=True)
class EncodingVariant:
    """The precision of matrix products, and whether the model is compiled."""

    precision: torch.dtype
    compiled: bool

    @classmethod
    def parse(cls, name: str) -> EncodingVariant:
        """Read "float32", "bfloat16+compile" and the like.

        Raises:
            InputError: if it is not one of the four.
        """
        precision, _, extra = name.strip().partition("+")
        kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
        if precision not in kinds or extra not in ("", "compile"):
            raise InputError(
                f"--variants {name!r}: expected float32 or bfloat16, optionally with +compile"
            )
        return cls(kinds[precision], bool(extra))

    def __str__(self) -> str:
        return str(self.precision).removeprefix("torch.") + "+compile" * self.compiled


@dataclass(frozen=True)
class EncodingPlan:
    """What is measured.

    Attributes:
        size: of model and images.
        variants: to measure.
        images: to encode, in whole batches.
        batch_size: images per pass.
        training_batch: images of a training step, 0 for none.
        chunks: terms matched at once, each measured; None for the model's default.
        device: where.
        peak: the device's TFLOP/s in bfloat16, None for the known value.
    """

    size: ModelSize
    variants: Sequence[EncodingVariant]
    images: int
    batch_size: int
    training_batch: int
    chunks: Sequence[int | None]
    device: torch.device
    peak: float | None = None


def measure_encoding(plan: EncodingPlan, progress: Progress = no_progress) -> EncodeSpeed:
    """Run every variant; progress of the stage "figures".

    On a CPU one thread computes, and its processor time is reported.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    total = len(plan.variants) * (2 + len(plan.chunks) + bool(plan.training_batch))
    flops = _flops(plan)
    figures: list[Figure] = []
    rates: dict[str, float] = {}
    for variant in plan.variants:
        side = SIDES.get(plan.device.type, SIDES["cuda"])
        rates[str(variant)] = product_rate(variant.precision, side, plan.device)
        for figure in _figures(plan, variant, flops):
            figures.append(figure)
            progress("figures", len(figures), total)
    torch.set_num_threads(threads)
    return EncodeSpeed(
        name_of(plan.device),
        plan.size,
        plan.batch_size,
        plan.training_batch,
        figures,
        rates,
        plan.peak or peak_of(plan.device),
    )


def _figures(
    plan: EncodingPlan, variant: EncodingVariant, flops: dict[str, float]
) -> Iterator[Figure]:
    """Encoding first; training, which allocates gradients, last."""
    model = make_model(plan.size).to(plan.device)  # type: ignore[arg-type]
    if variant.compiled:
        model.compile_encoding()
    for part, chunk, work in _encoding(model, plan, variant):
        passes = max(1, plan.images // plan.batch_size)
        with peak_memory(plan.device) as memory:
            seconds = seconds_of(work, passes, plan.device)
        rate = plan.batch_size / seconds
        yield Figure(str(variant), part, chunk, seconds, rate, flops[part], memory.bytes)
    if plan.training_batch:
        step = _training(model, plan, variant)
        with peak_memory(plan.device) as memory:
            seconds = seconds_of(step, STEPS, plan.device)
        rate = plan.training_batch / seconds
        yield Figure(str(variant), TRAINING, None, seconds, rate, flops[TRAINING], memory.bytes)


def _encoding(model: VisualSparta, plan: EncodingPlan, variant: EncodingVariant) -> Iterator[Job]:
    images = make_images(plan.size, plan.batch_size, plan.device)
    terms = torch.arange(plan.size.vocabulary, device=plan.device)

    def contextualise() -> tuple[Tensor, Tensor]:
        with torch.inference_mode(), _autocast(plan, variant):
            return model.contextualise(images)

    def match(chunk: int | None) -> None:
        with torch.inference_mode(), _autocast(plan, variant):
            model.match_vocabulary(hidden, mask, terms, chunk)

    yield TRANSFORMER, None, contextualise
    hidden, mask = contextualise()
    for chunk in plan.chunks:
        yield VOCABULARY, chunk, partial(match, chunk)
    yield WHOLE, None, partial(model.term_scores, images, precision=variant.precision)


def _training(
    model: VisualSparta, plan: EncodingPlan, variant: EncodingVariant
) -> Callable[[], None]:
    """Equation 13 over a batch with one caption each, its gradient, and a step of Adam."""
    images = make_images(plan.size, plan.training_batch, plan.device)
    captions = make_captions(plan.size, plan.training_batch, plan.device)
    own = torch.arange(plan.training_batch, device=plan.device)
    optimiser = torch.optim.Adam(model.train().parameters(), lr=5e-5)

    def step() -> None:
        optimiser.zero_grad()
        with _autocast(plan, variant):
            loss = cross_entropy(model(images, captions), own)
        loss.backward()
        optimiser.step()

    return step


def _autocast(plan: EncodingPlan, variant: EncodingVariant) -> torch.autocast:
    half = variant.precision != torch.float32
    return torch.autocast(plan.device.type, variant.precision, enabled=half)


def _flops(plan: EncodingPlan) -> dict[str, float]:
    """Part → FLOPs per image."""
    plain = replace(plan, batch_size=1, chunks=[None])
    variant = EncodingVariant(torch.float32, compiled=False)
    model = make_model(plan.size).to(plan.device)  # type: ignore[arg-type]
    found = {part: float(flops_of(work)) for part, _, work in _encoding(model, plain, variant)}
    if plan.training_batch:
        step = _training(model, plan, variant)
        found[TRAINING] = flops_of(step) / plan.training_batch
    return found

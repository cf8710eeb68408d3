"""The speed of encoding, as JSON values and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from eval.bench.encoding.device import TERA
from eval.bench.encoding.random_model import ModelSize

TRANSFORMER, VOCABULARY, WHOLE, TRAINING = "transformer", "vocabulary", "whole", "training step"
BOUND = 0.6  # share of the rate of one large product from which arithmetic bounds a part


@dataclass(frozen=True)
class Figure:
    """One part in one variant.

    Attributes:
        variant: precision, and whether compiled.
        part: "transformer" (equations 2 to 9), "vocabulary" (equation 10 for every term), "whole"
            (equations 2 to 12 but for the sum), or "training step".
        chunk: terms matched at once, None for the model's default.
        seconds: for a batch.
        images_per_second: of it.
        flops: of an image's matrix products.
        memory: peak in bytes, allocated on a GPU or resident on a CPU; None where it cannot be
            read.
    """

    variant: str
    part: str
    chunk: int | None
    seconds: float
    images_per_second: float
    flops: float
    memory: int | None

    @property
    def rate(self) -> float:
        """TFLOP/s."""
        return self.flops * self.images_per_second / TERA


@dataclass(frozen=True)
class EncodeSpeed:
    """All variants of one size.

    Attributes:
        chip: a GPU's name, or "cpu".
        size: of model and images.
        batch_size: images of a batch that is encoded.
        training_batch: images of a training step.
        figures: part by part.
        product_rates: variant → TFLOP/s of one product of two large matrices on the same device.
        peak: the device's TFLOP/s in bfloat16 from its manufacturer, None if unknown.
    """

    chip: str
    size: ModelSize
    batch_size: int
    training_batch: int
    figures: Sequence[Figure]
    product_rates: dict[str, float]
    peak: float | None

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        figures = [
            asdict(figure)
            | {
                "tflops_per_second": figure.rate,
                "share_of_peak": None if self.peak is None else figure.rate / self.peak,
                "share_of_product": self._share(figure),
            }
            for figure in self.figures
        ]
        return asdict(self) | {"figures": figures, "bounds": self.bounds()}

    def bounds(self) -> dict[str, str]:
        """Variant → what bounds its encoding."""
        found = {}
        for variant in self.product_rates:
            parts = [self._quickest(variant, name) for name in (TRANSFORMER, VOCABULARY)]
            part = max(parts, key=lambda figure: figure.seconds)
            share, of_both = self._share(part), part.seconds / sum(one.seconds for one in parts)
            what = "arithmetic" if share >= BOUND else "memory and what lies between products"
            found[variant] = (
                f"{of_both:.0%} of the time goes to the {part.part}, at {share:.0%} of the rate of "
                f"one large product: {what}"
            )
        return found

    def table(self) -> Table:
        """One row for each figure, with what bounds each variant below."""
        table = Table(caption="\n".join(self._caption()), caption_justify="left")
        for column in ("variant", "part"):
            table.add_column(column, no_wrap=True)
        for column in ("images/s", "s/batch", "TFLOP/s", "of peak", "GB"):
            table.add_column(column, justify="right")
        for figure in self.figures:
            table.add_row(
                figure.variant,
                figure.part + (f", {figure.chunk}" if figure.chunk else ""),
                f"{figure.images_per_second:,.1f}",
                f"{figure.seconds:.3f}",
                f"{figure.rate:.3g}",
                "" if self.peak is None else f"{figure.rate / self.peak:.0%}",
                "" if figure.memory is None else f"{figure.memory / 1e9:.2f}",
            )
        return table

    def _quickest(self, variant: str, part: str) -> Figure:
        own = [f for f in self.figures if (f.variant, f.part) == (variant, part)]
        return min(own, key=lambda figure: figure.seconds)

    def _share(self, figure: Figure) -> float:
        return figure.rate / self.product_rates[figure.variant]

    def _caption(self) -> list[str]:
        parts = {figure.part: figure.flops for figure in self.figures}
        flops = ", ".join(f"{part} {count / 1e9:.1f}" for part, count in parts.items())
        batches = f"Batches of {self.batch_size}"
        if self.training_batch:
            batches += f", in training of {self.training_batch}"
        return [
            f"{batches}. GFLOPs an image: {flops}.",
            *(f"{variant}: {bound}." for variant, bound in self.bounds().items()),
        ]

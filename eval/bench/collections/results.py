"""The figures of a comparison of collections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Figures:
    """One collection.

    Attributes:
        kind: of the collection, "given" for the images that the others are made of.
        terms: an image has, on average.
        frequency_error: mean distance of a term's document frequency from that in the given
            images, as a share of the images.
        correlation: of the impacts of two terms of one query, on average.
        correlation_r: Pearson's correlation of these figures and those of the given images.
        nearest, tenth: cosine of an image and its nearest and its tenth neighbour, on average.
        tightness: of bounds over 256, 32 and 8 images: largest score to bound, on average.
        passing: share of these blocks whose bound reaches the tenth score, on average.
    """

    kind: str
    terms: float
    frequency_error: float
    correlation: float
    correlation_r: float
    nearest: float
    tenth: float
    tightness: Sequence[float]
    passing: Sequence[float]


@dataclass(frozen=True)
class Collections:
    """All of them.

    Attributes:
        images: of each.
        top_n: terms an image keeps, None for all.
        figures: of each.
    """

    images: int
    top_n: int | None
    figures: Sequence[Figures]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self)

    def table(self) -> Table:
        """The figures as a table."""
        title = f"{self.images:,} images each, {self.top_n or 'all'} terms"
        table = Table("", *(one.kind for one in self.figures), title=title)
        for name, row in self._rows():
            table.add_row(name, *row)
        return table

    def _rows(self) -> list[tuple[str, list[str]]]:
        figures = self.figures
        return [
            ("terms an image", [f"{one.terms:,.0f}" for one in figures]),
            ("document frequency, error", [f"{one.frequency_error:.2%}" for one in figures]),
            ("correlation of two words", [f"{one.correlation:.3f}" for one in figures]),
            ("… its r with the given", [f"{one.correlation_r:.3f}" for one in figures]),
            ("nearest neighbour", [f"{one.nearest:.3f}" for one in figures]),
            ("tenth neighbour", [f"{one.tenth:.3f}" for one in figures]),
            *(
                (f"tightness, {size} images", [f"{one.tightness[i]:.3f}" for one in figures])
                for i, size in enumerate((256, 32, 8))
            ),
            *(
                (f"blocks passing, {size} images", [f"{one.passing[i]:.1%}" for one in figures])
                for i, size in enumerate((256, 32, 8))
            ),
        ]

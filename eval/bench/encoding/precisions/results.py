"""Speed and recall by runtime and precision, as JSON values and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.box import MARKDOWN
from rich.table import Table

from sparta.metrics import Recall


@dataclass(frozen=True)
class ScorerFigures:
    """A model in one runtime and precision.

    Attributes:
        name: such as "OpenVINO float32".
        images_per_second: of each turn.
        processor_ms: milliseconds of processor time an image, of all cores, of each turn.
        recall: through an index with the default settings; None without captions.
    """

    name: str
    images_per_second: Sequence[float]
    processor_ms: Sequence[float]
    recall: Recall | None


@dataclass(frozen=True)
class PrecisionFigures:
    """All runtimes and precisions, which took turns.

    Attributes:
        model: its name.
        images: encoded in a turn.
        scorers: the first is what the others are compared with.
    """

    model: str
    images: int
    scorers: Sequence[ScorerFigures]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        rows = [
            asdict(own)
            | {
                "recall": own.recall and own.recall._asdict(),
                "median_images_per_second": median(own.images_per_second),
                "times_the_first": self.times_the_first(own),
                "points_lost": self.points_lost(own),
            }
            for own in self.scorers
        ]
        return asdict(self) | {"scorers": rows}

    def table(self) -> Table:
        """One row for each runtime and precision; Markdown."""
        caption = f"{self.images} images a turn; times: median of the turns' ratios to the first."
        table = Table(box=MARKDOWN, caption=caption, caption_justify="left")
        table.add_column("scorer", no_wrap=True)
        for column in ("images/s", "least to most", "times", "processor ms", "recall", "lost"):
            table.add_column(column, justify="right", no_wrap=True)
        for own in self.scorers:
            rates, lost = own.images_per_second, self.points_lost(own)
            table.add_row(
                own.name,
                f"{median(rates):,.0f}",
                f"{min(rates):,.0f} to {max(rates):,.0f}",
                f"{self.times_the_first(own):.2f}",
                f"{median(own.processor_ms):.1f}",
                str(own.recall or ""),
                "" if lost is None else f"{lost:.2f}",
            )
        return table

    def times_the_first(self, own: ScorerFigures) -> float:
        """Median over the turns of a scorer's rate by the first one's in the same turn."""
        pairs = zip(own.images_per_second, self.scorers[0].images_per_second, strict=True)
        return median(rate / first for rate, first in pairs)

    def points_lost(self, own: ScorerFigures) -> float | None:
        """The most that recall at 1, 5 or 10 is below the first scorer's; None without captions."""
        first = self.scorers[0].recall
        if own.recall is None or first is None:
            return None
        return max(before - after for before, after in zip(first[:3], own.recall[:3], strict=True))

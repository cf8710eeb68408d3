"""The speed from photos to an index, as JSON values and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import MARKDOWN
from rich.table import Table

from eval.bench.photos.end_to_end import EndToEnd

ANY = "any"


@dataclass(frozen=True)
class Rate:
    """The speed of one stage that runs alone on all cores.

    Attributes:
        stage: such as "decoding".
        photos: name of the photos, or "any" where their size does not matter.
        photos_per_second: photos or, after extraction, images.
    """

    stage: str
    photos: str
    photos_per_second: float


@dataclass(frozen=True)
class MeasuredSet:
    """Some photos, and the command on them.

    Attributes:
        name: of the photos.
        megabytes: mean size of a file.
        whole: `sparta index`.
    """

    name: str
    megabytes: float
    whole: EndToEnd

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self) | {"photos_per_second": self.whole.photos_per_second}

    def __str__(self) -> str:
        memory = f"{self.whole.memory / 1e9:.2f} GB" if self.whole.memory else "unknown"
        return (
            f"{self.name}: {self.whole.photos:,} photos of {self.megabytes:.2f} MB in "
            f"{self.whole.seconds:.1f} s, features after {self.whole.extract_seconds:.1f} s; peak "
            f"memory of all processes {memory}."
        )


@dataclass(frozen=True)
class PhotoSpeed:
    """All figures.

    Attributes:
        model: its name.
        cores: that were used.
        sets: with the command on each.
        rates: of the stages.
    """

    model: str
    cores: int
    sets: Sequence[MeasuredSet]
    rates: Sequence[Rate]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self) | {"sets": [one.record() for one in self.sets]}

    def table(self) -> Table:
        """One row for each rate, the command first; Markdown."""
        lines = [f"Cores: {self.cores}.", *map(str, self.sets)]
        table = Table(box=MARKDOWN, caption="\n".join(lines), caption_justify="left")
        table.add_column("stage", no_wrap=True)
        table.add_column("photos")
        table.add_column("photos/s", justify="right")
        whole = [Rate("sparta index", s.name, s.whole.photos_per_second) for s in self.sets]
        for rate in [*whole, *self.rates]:
            table.add_row(rate.stage, rate.photos, f"{rate.photos_per_second:,.0f}")
        return table

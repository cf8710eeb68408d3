"""The result of the study, for programs and for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from eval.exclusion.measure import BandRow
from eval.exclusion.searches import SearchRow


@dataclass(frozen=True)
class ExclusionResult:
    """Exclusion measured on some photos.

    Attributes:
        photos: how many.
        share: of a term's largest impact, with which a photo has the term.
        bands: at this share.
        curve: share → F1 of the bands, averaged.
        pairs: of words, searched for.
        searches: one row a way to write the query.
    """

    photos: int
    share: float
    bands: Sequence[BandRow]
    curve: dict[float, float]
    pairs: int
    searches: Sequence[SearchRow]

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        bands = [
            asdict(row) | {"rightly": row.rightly, "wrong": row.wrong, "lost": row.lost}
            for row in self.bands
        ]
        return asdict(self) | {"bands": bands}

    def table(self) -> Table:
        """The figures for a terminal."""
        whole = Table.grid(padding=(1, 0))
        for part in (self._bands(), self._curve(), self._searches()):
            whole.add_row(part)
        return whole

    def _bands(self) -> Table:
        table = Table(
            "photos with the word",
            "words",
            "should go",
            "go",
            "wrong of these",
            "lost",
            "F1",
            title=f"Excluding a word: {self.photos:,} photos, share {self.share:g}",
        )
        for row in self.bands:
            table.add_row(
                row.band,
                f"{row.words:,}",
                f"{row.should_go:,}",
                f"{row.rightly:.1f} %",
                f"{row.wrong:.1f} %",
                f"{row.lost:.2f} %",
                f"{row.f1:.3f}",
            )
        return table

    def _curve(self) -> Table:
        table = Table("share of the largest impact", "mean F1 of the bands")
        for share, f1 in self.curve.items():
            table.add_row(f"{share:g}", f"{f1:.4f}")
        return table

    def _searches(self) -> Table:
        table = Table(
            "query",
            "has the other word",
            "has the word alone",
            "hits",
            title=f"The first ten hits, means over {self.pairs:,} pairs of words",
        )
        for row in self.searches:
            table.add_row(
                row.query, f"{row.with_other:.1f} %", f"{row.right:.1f} %", f"{row.hits:.1f}"
            )
        return table

"""What a pruning study measured, as JSON, tables and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from eval.plotting import DOTS_PER_INCH, legend, panels
from eval.pruning.index import IndexBytes, PruningChoice
from sparta.metrics import Recall

NAMES = ("top-n", "offset", "terms", "asked", "bits")
FIGURES = (
    *("R@1", "R@5", "R@10", "median rank", "overlap with float", "overlap with float top-n"),
    *("terms per image", "Lucene bytes", "columns bytes"),
)


@dataclass(frozen=True)
class PruningRow:
    """The result of one choice."""

    choice: PruningChoice | None  # None for the float model: not pruned, not quantised
    bits: int | None  # of an impact, None for scores that are not quantised
    recall: Recall  # text→image
    overlap: float  # percent of the float model's first ten images that are in this row's
    overlap_same_top_n: float  # the same for the choice's ranking before quantisation
    postings_per_image: float  # terms with a score, on average
    size: IndexBytes | None  # of the index, None where none was built
    others: dict[str, Recall]  # recall of other groups of queries

    def record(self) -> dict[str, Any]:
        """The row as JSON values; the float model's has no settings."""
        choice = {one.name: getattr(self.choice, one.name, None) for one in fields(PruningChoice)}
        return {
            **choice,
            "top_n": choice["top_n"] or "all",
            "bits": self.bits or "float",
            "r1": self.recall.at_1,
            "r5": self.recall.at_5,
            "r10": self.recall.at_10,
            "median_rank": self.recall.median_rank,
            "overlap": self.overlap,
            "overlap_same_top_n": self.overlap_same_top_n,
            "postings_per_image": self.postings_per_image,
            "lucene_bytes_per_image": self.size and self.size.lucene,
            "columns_bytes_per_image": self.size and self.size.columns,
            "others": {name: list(found[:3]) for name, found in self.others.items()},
        }

    def names(self) -> list[str]:
        """What the row is of, in the order of `NAMES`."""
        if not (choice := self.choice):
            return ["float model", "", "", "", ""]
        power = f"{Path(choice.asked).name} {choice.asked_power:g}"
        asked = "none" if choice.asked == "none" else power
        bits = str(self.bits or "float")
        return [str(choice.top_n or "all"), choice.offset, choice.terms, asked, bits]

    def cells(self) -> list[str]:
        """The row as text, in the order of `NAMES` and `FIGURES`."""
        return [
            *self.names(),
            *(f"{share:.1f}" for share in self.recall[:3]),
            f"{self.recall.median_rank:g}",
            f"{self.overlap:.1f}",
            f"{self.overlap_same_top_n:.1f}",
            f"{self.postings_per_image:,.0f}",
            *(["", ""] if self.size is None else (f"{size:,.0f}" for size in self.size)),
        ]


@dataclass(frozen=True)
class PruningStudy:
    """The rows, the float model's first, and the models they were measured on."""

    models: list[str]  # fingerprints
    images: int  # photos searched
    missing: int  # captioned photos that were left out
    queries: int  # captions
    other_queries: dict[str, int]  # name of every other group → its queries
    vocabulary: int  # terms of the models, special ones included
    encode_seconds: float  # for scoring all images with all models and stores
    seconds: float  # in all
    rows: list[PruningRow]  # the float model's first

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return vars(self) | {"rows": [row.record() for row in self.rows]}

    def table(self) -> Group:
        """The rows, and a table of R@1 / R@5 / R@10 of the other groups of queries."""
        missing = f"; captioned photos left out: {self.missing:,}" if self.missing else ""
        about = f"{self.images:,} images, {self.queries:,} captions{missing}; {self.seconds:,.0f} s"
        groups = [f"{name} ({count:,})" for name, count in self.other_queries.items()]
        others = (
            [*row.names(), *(str(found).split(",")[0] for found in row.others.values())]
            for row in self.rows
        )
        rows = _table(FIGURES, (row.cells() for row in self.rows))
        return Group(about, "", rows, "", _table(groups, others))


def _table(figures: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*NAMES, box=SIMPLE_HEAD, padding=0, show_edge=False)  # fits 80 columns
    for figure in figures:
        table.add_column(figure, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def save_frontier(rows: Sequence[PruningRow], out: Path) -> None:
    """Draw a line over top-n for every other choice whose indexes were built; none, no picture."""
    lines: dict[str, list[PruningRow]] = {}
    for row in rows:
        if row.size is not None:
            _, offset, terms, asked, bits = row.names()
            lines.setdefault(f"{offset}, {terms}, asked {asked}, {bits} bits", []).append(row)
    if not lines:
        return
    figure, axes = panels(len(IndexBytes._fields), width=5.5, height=4.5)
    for one, engine in zip(axes, IndexBytes._fields, strict=True):
        for name, own in lines.items():
            points = sorted(
                (getattr(row.size, engine), row.recall.at_10, row.names()[0]) for row in own
            )
            one.plot(*zip(*(point[:2] for point in points), strict=True), "o-", ms=3, label=name)
            for size, recall, top_n in points:
                place = (size, recall)
                one.annotate(top_n, place, (3, 3), textcoords="offset points", fontsize=6)
        one.set(xscale="log", xlabel=f"bytes an image, {engine}", ylabel="recall at 10, %")
        legend(one)
    figure.savefig(out, dpi=DOTS_PER_INCH)

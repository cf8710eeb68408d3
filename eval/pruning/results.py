"""What a pruning study measured, as JSON, Markdown, a table and a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table

from eval.plotting import DOTS_PER_INCH, legend, panels
from eval.pruning.index import IndexBytes, PruningChoice
from eval.report import markdown_head
from sparta.metrics import Recall

COLUMNS = (
    *("top-n", "offset", "terms", "asked", "bits", "R@1", "R@5", "R@10", "median rank"),
    *("overlap with float", "overlap with float top-n", "terms per image"),
    *("Lucene bytes", "columns bytes"),
)
Line = list[tuple[float, float, str]]  # bytes an image, recall at 10, top-n
NAMES = ("offset", "terms", "asked")  # columns of words; the others are figures


@dataclass(frozen=True)
class PruningRow:
    """The result of one choice.

    Attributes:
        choice: None for the float model, where nothing is pruned, subtracted or quantised.
        bits: of an impact, None for scores that are not quantised.
        recall: text→image.
        overlap: percent of the float model's first ten images that are in this row's first ten.
        overlap_same_top_n: the same for the choice's ranking before quantisation.
        postings_per_image: terms with a score, on average.
        size: of the index, None where none was built.
        others: recall of other groups of queries.
    """

    choice: PruningChoice | None
    bits: int | None
    recall: Recall
    overlap: float
    overlap_same_top_n: float
    postings_per_image: float
    size: IndexBytes | None
    others: dict[str, Recall]

    def record(self) -> dict[str, Any]:
        """The row as JSON values; the float model's has no settings."""
        choice = self.choice
        return {
            "offset": choice.offset if choice else None,
            "terms": choice.terms if choice else None,
            "asked": choice.asked if choice else None,
            "asked_power": choice.asked_power if choice else None,
            "top_n": (choice.top_n if choice else None) or "all",
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
        """What the row is of, as text: the first of `COLUMNS`."""
        choice = self.choice
        if not choice:
            return ["float model", "", "", "", ""]
        asked = "none"
        if choice.asked != "none":
            asked = f"{Path(choice.asked).name} {choice.asked_power:g}"
        return [
            str(choice.top_n or "all"),
            choice.offset,
            choice.terms,
            asked,
            str(self.bits or "float"),
        ]

    def cells(self) -> list[str]:
        """The row as text, in the order of `COLUMNS`."""
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
    """The rows, the float model's first, and the models they were measured on.

    Attributes:
        models: fingerprints.
        images: photos searched.
        missing: captioned photos that were left out.
        queries: captions.
        other_queries: name of every other group → its queries.
        vocabulary: terms of the models, special ones included.
        encode_seconds: for scoring all images with all models and stores.
        seconds: in all.
        rows: of the choices.
    """

    models: list[str]
    images: int
    missing: int
    queries: int
    other_queries: dict[str, int]
    vocabulary: int
    encode_seconds: float
    seconds: float
    rows: list[PruningRow]


def about(study: PruningStudy) -> str:
    """How many images and captions there are, and how many photos are missing."""
    missing = f"; captioned photos left out: {study.missing:,}" if study.missing else ""
    return f"{study.images:,} images, {study.queries:,} captions{missing}"


def table(study: PruningStudy) -> Table:
    """The rows for a terminal."""
    shown = Table(
        title=about(study),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )  # fits 80 columns
    for column in COLUMNS:
        justify: JustifyMethod = "left" if column in NAMES else "right"
        shown.add_column(column.replace(" ", "\n"), justify=justify)
    for row in study.rows:
        shown.add_row(*row.cells())
    return shown


def markdown(study: PruningStudy, head: Mapping[str, Any]) -> str:
    """The head, and the rows as two Markdown tables.

    The second has R@1 / R@5 / R@10 of the other groups of queries.
    """
    lines = [
        f"{about(study)}; {study.seconds:,.0f} s",
        "",
        *_table(COLUMNS, [row.cells() for row in study.rows]),
        "",
        *_table(
            [*COLUMNS[:5], *(f"{name} ({count:,})" for name, count in study.other_queries.items())],
            [
                [*row.names(), *(str(found).split(",")[0] for found in row.others.values())]
                for row in study.rows
            ],
        ),
    ]
    return markdown_head(head) + "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---" if column in NAMES else "--:" for column in columns]
    return [_line(cells) for cells in (columns, rule, *rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def save(study: PruningStudy, out: Path, head: Mapping[str, Any]) -> None:
    """Write the study to `out` as JSON and beside it, as .md, as a Markdown table.

    Args:
        study: to write.
        out: the JSON file.
        head: see `eval.report.head_of`.
    """
    rows = [row.record() for row in study.rows]
    values = {**head, **vars(study), "rows": rows}
    out.write_text(json.dumps(values, indent=2, default=str) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(markdown(study, head), encoding="utf-8")


def save_frontier(rows: Sequence[PruningRow], out: Path) -> None:
    """Draw a line over top-n for every other choice whose indexes were built; none, no picture."""
    built = [row for row in rows if row.size is not None]
    if not built:
        return
    figure, axes = panels(len(IndexBytes._fields), width=5.5, height=4.5)
    for one, engine in zip(axes, IndexBytes._fields, strict=True):
        _draw(one, built, engine)
    figure.savefig(out, dpi=DOTS_PER_INCH)


def _draw(axes: Axes, rows: Sequence[PruningRow], engine: str) -> None:
    lines: dict[str, Line] = {}
    for row in rows:
        top_n, offset, terms, asked, bits = row.names()
        name = f"{offset}, {terms}, asked {asked}, {bits} bits"
        point = (getattr(row.size, engine), row.recall.at_10, top_n)
        lines.setdefault(name, []).append(point)
    for name, points in lines.items():
        sizes, recalls, top_ns = zip(*sorted(points), strict=True)
        axes.plot(sizes, recalls, marker="o", ms=3, label=name)
        for place in zip(sizes, recalls, top_ns, strict=True):
            axes.annotate(place[2], place[:2], (3, 3), textcoords="offset points", fontsize=6)
    axes.set_xscale("log")
    axes.set_xlabel(f"bytes an image, {engine}")
    axes.set_ylabel("recall at 10, %")
    legend(axes)

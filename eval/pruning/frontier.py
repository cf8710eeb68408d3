"""The frontier of a study: recall against the bytes an image takes in an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from eval.plotting import DOTS_PER_INCH, legend, panels
from eval.pruning.pruned_index import IndexBytes
from eval.pruning.results import PruningRow

Line = list[tuple[float, float, str]]  # bytes an image, recall at 10, top-n


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

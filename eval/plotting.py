"""Figures as two files: a picture, and its numbers as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sparta.json_values import JsonMapping

DOTS_PER_INCH = 150


def panels(
    count: int, width: float = 4.5, height: float = 3.5, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure of rows of some panels side by side, each of that size in inches; row by row."""
    # Not pyplot, which needs a window system and has global state.
    figure = Figure(figsize=(count * width, rows * height), layout="constrained")
    axes = [figure.add_subplot(rows, count, number + 1) for number in range(rows * count)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend(axes: Axes, columns: int = 1) -> None:
    """Put the legend above the panel, where it covers no line."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), fontsize=8, ncols=columns)


def save(figure: Figure, data: JsonMapping, out: Path) -> None:
    """Write the picture, and beside it as .json its numbers.

    `data` has the numbers as JSON values: the head, and everything in the figure.
    """
    figure.savefig(out, dpi=DOTS_PER_INCH)
    text = json.dumps(data, indent=2, default=str, ensure_ascii=False)
    out.with_suffix(".json").write_text(text + "\n", encoding="utf-8")

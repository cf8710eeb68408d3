"""A figure as two files: a picture for people, and its numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.machine import circumstances
from sparta.errors import InputError

DOTS_PER_INCH = 150


def check_picture(out: Path, option: str = "--out") -> None:
    """Refuse a picture that could not be written when the work is done.

    Args:
        out: the file.
        option: of the command that names it.

    Raises:
        InputError: if it is no .png file in a folder that exists.
    """
    if out.suffix != ".png" or not out.parent.is_dir():
        raise InputError(f"{option} {out} must be a .png file in a folder that exists")


def panels(count: int, width: float = 4.5, height: float = 3.5) -> tuple[Figure, list[Axes]]:
    """A figure of some panels side by side, each of that size in inches."""
    # Without pyplot: no window system is asked for, and no state is shared.
    figure = Figure(figsize=(count * width, height), layout="constrained")
    axes = [figure.add_subplot(1, count, number + 1) for number in range(count)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend(axes: Axes) -> None:
    """The names of the lines above the panel, where they hide nothing."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)


def save(figure: Figure, data: Mapping[str, Any], out: Path, arguments: Mapping[str, Any]) -> None:
    """Write the picture, and beside it as .json its numbers and how they came about.

    Args:
        figure: drawn.
        data: JSON values, all that the figure shows.
        out: of the picture.
        arguments: of the command.
    """
    figure.savefig(out, dpi=DOTS_PER_INCH)
    whole = {"arguments": dict(arguments), **circumstances(), **data}
    text = json.dumps(whole, indent=2, default=str, ensure_ascii=False)
    out.with_suffix(".json").write_text(text + "\n", encoding="utf-8")

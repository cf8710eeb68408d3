"""K-max pooling tried with every K on both sides (GPO, arXiv 2011.04305, figure 6)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from eval.plotting import panels
from sparta.errors import InputError

SETTINGS = "grid.json"
RSUM = "rsum.json"
ALL = "all"


@dataclass(frozen=True)
class Grid:
    """RSUM of every pair of poolings.

    Attributes:
        visual: K of each row, "all" for mean pooling.
        text: K of each column.
        rsum: [rows][columns].
    """

    visual: list[str]
    text: list[str]
    rsum: list[list[float]]


def parse_sizes(text: str, option: str) -> list[str]:
    """The Ks of a list with commas, each once.

    Raises:
        InputError: if one is neither a positive number nor "all".
    """
    sizes = list(dict.fromkeys(size.strip() for size in text.split(",")))
    for size in sizes:
        if size != ALL and not (size.isdecimal() and int(size)):
            raise InputError(f"{option}: {size!r} is neither a number from 1 nor {ALL}")
    return sizes


def overrides(visual: str, text: str) -> list[str]:
    """Settings of `sparta train` for one pair of poolings."""
    found = []
    for side, size in (("visual", visual), ("text", text)):
        options = f"model.options.{side}_pooling"
        name, own = ("mean", "{}") if size == ALL else ("k-max", f"{{k: {size}}}")
        found += [f"{options}={name}", f"{options}_options={own}"]
    return found


def run_grid(
    runs: Path,
    visual: Sequence[str],
    text: Sequence[str],
    settings: Mapping[str, Any],
    train: Callable[[Path, Sequence[str], bool], None],
    measure: Callable[[Path], float],
) -> Grid:
    """Train and measure the models that are missing.

    Args:
        runs: folder of the runs, one for each pair.
        visual: Ks of the rows.
        text: Ks of the columns.
        settings: all else that decides the figures, JSON values; runs made with others are not
            taken for these.
        train: called with the folder of a run, its settings, and whether to go on with it.
        measure: RSUM of a model folder.

    Raises:
        InputError: if the runs that are there were made with other settings.
    """
    _check_settings(runs, settings)
    rsum = [
        [_cell(runs / f"visual-{v}-text-{t}", overrides(v, t), train, measure) for t in text]
        for v in visual
    ]
    return Grid(list(visual), list(text), rsum)


def _check_settings(runs: Path, settings: Mapping[str, Any]) -> None:
    path, text = runs / SETTINGS, json.dumps(settings, indent=2, sort_keys=True)
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        raise InputError(f"{path} has other settings than these: choose another --runs")
    runs.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _cell(
    run: Path,
    settings: Sequence[str],
    train: Callable[[Path, Sequence[str], bool], None],
    measure: Callable[[Path], float],
) -> float:
    result = run / RSUM
    if not result.is_file():
        if not (run / "model").is_dir():
            train(run, settings, (run / "checkpoints" / "last.ckpt").is_file())
        result.write_text(json.dumps(measure(run / "model")), encoding="utf-8")
    return float(json.loads(result.read_text(encoding="utf-8")))


def train_by_command(
    preset: str, given: Sequence[str]
) -> Callable[[Path, Sequence[str], bool], None]:
    """`sparta train PRESET` in a separate process, which shows its progress.

    Args:
        preset: name or YAML file.
        given: settings for all runs.
    """

    def train(run: Path, settings: Sequence[str], resume: bool) -> None:
        changes = [part for setting in (*given, *settings) for part in ("--set", setting)]
        command = [sys.executable, "-m", "sparta", "train", preset, "--out", str(run), *changes]
        if subprocess.run([*command, *["--resume"] * resume], check=False).returncode:
            raise InputError(f"{run}: training ended with the error above")

    return train


def draw(grid: Grid) -> Figure:
    """The matrix of RSUMs, K of the images upwards, K of the texts to the right."""
    size = 1.5 + 0.6 * max(len(grid.visual), len(grid.text))
    figure, (axes,) = panels(1, width=size + 0.7, height=size)
    values = np.array(grid.rsum)
    drawn = axes.imshow(values, cmap="viridis", origin="lower")
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    axes.set_xticks(range(len(grid.text)), grid.text)
    axes.set_yticks(range(len(grid.visual)), grid.visual)
    axes.set_xlabel("K of the text pooling")
    axes.set_ylabel("K of the visual pooling")
    middle = (values.min() + values.max()) / 2
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value < middle else "black"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour, fontsize=8)
    return figure

"""Negatives per step under ADOPT (VSE+2AD, arXiv 2210.02206, appendix C, figure C-2)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import yaml
from matplotlib.figure import Figure

from eval.plotting import legend, panels
from sparta.errors import InputError

COLUMN = "negatives"
WINDOW = 5  # logged steps a drawn mean is taken over


@dataclass(frozen=True)
class Negatives:
    """What one run logged.

    Attributes:
        run: its folder.
        variant: of the formula: "paper" or "code".
        batch_size: pairs per step; at most one fewer can be negatives.
        steps: rising.
        negatives: K at each of the steps.
    """

    run: str
    variant: str
    batch_size: int
    steps: list[int]
    negatives: list[float]


def read_negatives(run: Path) -> Negatives:
    """Read a run's logs; where a resumed run repeated steps, its own count.

    Raises:
        InputError: if the folder is no run of `sparta train`, or nothing of the kind was logged.
    """
    settings = run / "config.yaml"
    if not settings.is_file():
        raise InputError(f"{run} is no run of sparta train: it has no {settings.name}")
    config = yaml.safe_load(settings.read_text(encoding="utf-8"))
    found: dict[int, float] = {}
    for path in sorted(run.glob("logs/version_*/metrics.csv"), key=_version):
        with path.open(encoding="utf-8", newline="") as file:
            found |= {
                int(row["step"]): float(row[COLUMN])
                for row in csv.DictReader(file)
                if row.get(COLUMN)
            }
    if not found:
        raise InputError(
            f"{run}: its logs have no {COLUMN}; runs with objective.kind=adopt log them every few "
            "steps"
        )
    steps = sorted(found)
    return Negatives(
        str(run),
        config["objective"]["variant"],
        config["batch_size"],
        steps,
        [found[step] for step in steps],
    )


def _version(path: Path) -> int:
    return int(path.parent.name.rpartition("_")[2])


def moving_mean(values: Sequence[float], window: int = WINDOW) -> list[float]:
    """Mean of each value and those before it, `window` in all where there are so many."""
    return [fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]


def draw(runs: Sequence[Negatives]) -> Figure:
    """One curve a run: faint what was logged, over it the moving mean."""
    figure, (axes,) = panels(1, width=6)
    for run in runs:
        formula = "as printed" if run.variant == "paper" else "as coded"
        label = f"{Path(run.run).name}: formula {formula}"
        (line,) = axes.plot(run.steps, moving_mean(run.negatives), label=label)
        axes.plot(run.steps, run.negatives, color=line.get_color(), alpha=0.25, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")
    axes.set_ylabel("negatives K")
    legend(axes)
    return figure

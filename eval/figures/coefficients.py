"""Pooling coefficients a GPO model has learned (GPO, arXiv 2011.04305, figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eval.plotting import legend, panels
from sparta.errors import InputError
from sparta.vse.model import VseModel
from sparta.vse.pooling.gpo import GPO


@dataclass(frozen=True)
class Curve:
    """θ_1 … θ_n of one pooling for sets of one size.

    Attributes:
        side: "image" or "text".
        name: of the pooling: the side, with the number of the view if there are several.
        size: n.
        weights: of the largest value, the second largest, …; they sum to one.
    """

    side: str
    name: str
    size: int
    weights: list[float]


def pooling_curves(model: VseModel, regions: Sequence[int], words: Sequence[int]) -> list[Curve]:
    """The coefficients of every GPO of a model.

    Args:
        model: in eval mode.
        regions: sizes of image sets, positive.
        words: sizes of texts, start and end included, positive.

    Raises:
        InputError: if the model has no GPO.
    """
    several = len(model.visual_poolings) > 1
    views = [
        ("image", f"image, view {number}" if several else "image", pooling, regions)
        for number, pooling in enumerate(model.visual_poolings, 1)
    ]
    curves = [
        Curve(side, name, size, pooling.coefficients(size).tolist())
        for side, name, pooling, sizes in [*views, ("text", "text", model.text_pooling, words)]
        if isinstance(pooling, GPO)
        for size in sizes
    ]
    if not curves:
        config = model.config
        raise InputError(
            f"the model pools by {config.visual_pooling} and {config.text_pooling}: only gpo "
            "learns coefficients"
        )
    return curves


def draw(curves: Sequence[Curve]) -> Figure:
    """A panel for images and one for texts; dashed, what mean pooling has."""
    sides = list(dict.fromkeys(curve.side for curve in curves))
    figure, axes = panels(len(sides))
    for one, side in zip(axes, sides, strict=True):
        for curve in (curve for curve in curves if curve.side == side):
            ranks = range(1, curve.size + 1)
            label = f"{curve.name}, {curve.size} elements"
            (line,) = one.plot(ranks, curve.weights, marker=".", label=label)
            mean = [1 / curve.size] * curve.size
            one.plot(ranks, mean, linestyle="--", linewidth=0.8, color=line.get_color())
        one.set_xlabel("rank of the value, 1 for the largest")
        one.set_ylabel("weight")
        one.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(one)
    return figure

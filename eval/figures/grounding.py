"""What won each term of a query in a photo, drawn over it (VisualSparta, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from eval.explained import Explained
from indexer.report import won_by

# Okabe and Ito's, told apart by colour-blind readers too: one for each region, over and over.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")
NOTHING = "#767676"
SIZE, LINE, CHARACTERS = 7.5, 0.065, 44  # of text: points, share of a photo's height, a line's


def draw(examples: Sequence[Explained], photos: Mapping[str, Image.Image]) -> Figure:
    """Every photo with the regions that won something, and beside it the terms they won."""
    columns = min(2, len(examples))
    rows = ceil(len(examples) / columns)
    figure = Figure(figsize=(5.4 * columns, 3 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, 2 * columns)
    for place, example in enumerate(examples):
        row, column = divmod(place, columns)
        photo, text = (figure.add_subplot(grid[row, 2 * column + side]) for side in (0, 1))
        colours = _colours(example)
        _draw_photo(photo, photos[example.explanation.image_id], example, colours)
        _draw_terms(text, example, colours)
    return figure


def _colours(example: Explained) -> dict[int, str]:
    """A colour for each region that won something, the one with the strongest term first."""
    regions = [term.region for term in example.terms if term.score and term.region is not None]
    distinct = dict.fromkeys(regions)
    return {region: COLOURS[place % len(COLOURS)] for place, region in enumerate(distinct)}


def _draw_photo(
    axes: Axes, photo: Image.Image, example: Explained, colours: dict[int, str]
) -> None:
    width, height = photo.size
    axes.imshow(photo)
    axes.set_axis_off()
    drawn: set[int] = set()
    for term in example.terms:
        if term.box is None or term.region not in colours or term.region in drawn:
            continue
        drawn.add(term.region)
        left, top, right, bottom = (
            share * side for share, side in zip(term.box, 2 * photo.size, strict=True)
        )
        colour, size = colours[term.region], (right - left, bottom - top)
        axes.add_patch(Rectangle((left, top), *size, fill=False, edgecolor=colour, linewidth=2))
        axes.text(
            left + 0.015 * width,
            top + 0.015 * height,
            f"{term.term} {term.score:g}",
            size=SIZE,
            color="white",
            va="top",
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 1},
        )


def _draw_terms(axes: Axes, example: Explained, colours: dict[int, str]) -> None:
    axes.set_axis_off()
    query = fill(f"“{example.query}”", CHARACTERS)
    axes.text(0, 1, query, size=SIZE, va="top", weight="bold")
    y = 1 - LINE * (1.6 + query.count("\n"))
    for term in example.terms:
        colour = NOTHING if term.region is None else colours.get(term.region, NOTHING)
        axes.text(0, y, f"{term.score:g}", size=SIZE, va="top", color=colour, weight="bold")
        axes.text(0.14, y, f"{term.term}  {won_by(term)}", size=SIZE, va="top")
        y -= LINE

"""What won each term of a query in a photo: explained, and drawn over the photo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from PIL import Image

from indexer.answer import Explanation, TermExplanation
from indexer.commands.search import won_by
from indexer.search.searcher import Searcher
from indexer.store.images import UnknownImageError
from sparta.errors import InputError
from sparta.extract.image_files import PhotoError, load_photo
from sparta.json_values import Json

if TYPE_CHECKING:  # an explanation that is only printed needs no matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable by colour-blind readers; repeated over the regions.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")
NOTHING = "#767676"
SIZE = 7.5  # of text, in points
CHARACTERS = 44  # of a line of text
LINE = 0.065  # its share of a photo's height
TAG = 0.3  # share of a photo's width that a tag takes
RIGHT = 0.6  # from where on there is more room to the left of a box's right edge


@dataclass(frozen=True)
class Explained:
    """The explanation of one photo's score for one query."""

    query: str
    explanation: Explanation

    @property
    def terms(self) -> list[TermExplanation]:
        """By falling score."""
        return sorted(self.explanation.terms, key=lambda term: -term.score)

    def record(self) -> Json:
        """The explanation as JSON values."""
        return {"query": self.query, **asdict(self.explanation)}


def explain(searcher: Searcher, image_id: str, query: str, substitute: bool = True) -> Explained:
    """Explain the score of an image for a query, with or without substitutes of unknown words."""
    try:
        return Explained(query, searcher.explain(query, image_id, substitute=substitute))
    except UnknownImageError as error:
        raise InputError(f"the index has no image {image_id!r}") from error


def open_photo(folder: Path | str | None, image_id: str) -> Image.Image:
    """Open the photo of an image id, which is a path relative to the folder."""
    if folder is None:
        raise InputError("no folder of photos is recorded: give --photos")
    try:
        return load_photo(Path(folder) / image_id).image
    except (OSError, PhotoError) as error:
        raise InputError(f"photo {image_id!r} in {folder}: {error}; see --photos") from error


def draw(examples: Sequence[Explained], photos: Path | str | None) -> Figure:
    """Every photo of a folder with the regions that won something, and the terms they won."""
    from matplotlib.figure import Figure

    columns = min(2, len(examples))
    rows = ceil(len(examples) / columns)
    figure = Figure(figsize=(5.4 * columns, 2.8 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, 2 * columns)
    for place, example in enumerate(examples):
        row, column = divmod(place, columns)
        photo, text = (figure.add_subplot(grid[row, 2 * column + side]) for side in (0, 1))
        for axes in (photo, text):
            axes.set_axis_off()
            axes.set_anchor("NW")
        photo.imshow(open_photo(photos, example.explanation.image_id))
        _write_terms(text, example, _draw_regions(photo, example))
    return figure


def _draw_regions(axes: Axes, example: Explained) -> dict[int, str]:
    """Draw each region that won something once, with its strongest term; give its colour."""
    strongest: dict[int, TermExplanation] = {}
    for term in example.terms:
        if term.score and term.region is not None:
            strongest.setdefault(term.region, term)
    colours: dict[int, str] = {}
    tags: list[tuple[float, float]] = []
    for place, (region, term) in enumerate(strongest.items()):
        colours[region] = COLOURS[place % len(COLOURS)]
        _draw_box(axes, term, colours[region], tags)
    return colours


def _draw_box(
    axes: Axes, term: TermExplanation, colour: str, tags: list[tuple[float, float]]
) -> None:
    """A box, and over it a term's name and score, below those of earlier boxes that are there."""
    from matplotlib.patches import Rectangle

    assert term.box is not None
    left, top, right, bottom = term.box
    box = Rectangle((left, 1 - bottom), right - left, bottom - top, transform=axes.transAxes)
    box.set(fill=False, edgecolor=colour, linewidth=2)
    axes.add_patch(box)
    start = right - TAG if left > RIGHT else left
    top = max(0, top - LINE)
    while any(abs(start - x) < TAG and abs(top - y) < LINE for x, y in tags):
        top += LINE
    tags.append((start, top))
    axes.text(
        right if left > RIGHT else left,
        1 - top,
        f"{term.term} {term.score:g}",
        size=SIZE,
        color="white",
        ha="right" if left > RIGHT else "left",
        va="top",
        transform=axes.transAxes,
        bbox={"facecolor": colour, "edgecolor": "none", "pad": 1},
    )


def _write_terms(axes: Axes, example: Explained, colours: Mapping[int, str]) -> None:
    query = fill(f"“{example.query}”", CHARACTERS)
    axes.text(0, 1, query, size=SIZE, va="top", weight="bold")
    y = 1 - LINE * (1.6 + query.count("\n"))
    for term in example.terms:
        if term.score:
            colour = NOTHING if term.region is None else colours[term.region]
            axes.text(0, y, f"{term.score:g}", size=SIZE, va="top", color=colour, weight="bold")
            axes.text(0.14, y, f"{term.term}  {won_by(term)}", size=SIZE, va="top")
            y -= LINE
    without = [term.term for term in example.terms if not term.score]
    if without:
        text = fill(f"no score: {', '.join(without)}", CHARACTERS)
        axes.text(0, y, text, size=SIZE, va="top", color=NOTHING)

"""A brush for small vector drawings: filled and outlined shapes in the unit square."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

RGB = tuple[int, int, int]
Point = tuple[float, float]

MARGIN = 0.04  # of the canvas, so that outlines on the unit square's edge are not cut

PALETTE: dict[str, RGB] = {
    "red": (212, 42, 42),
    "orange": (242, 132, 34),
    "yellow": (247, 212, 58),
    "green": (66, 158, 66),
    "turquoise": (44, 190, 186),
    "blue": (44, 96, 212),
    "purple": (132, 66, 176),
    "pink": (246, 148, 188),
    "brown": (134, 84, 46),
    "black": (42, 42, 48),
    "grey": (142, 144, 150),
    "white": (244, 244, 240),
}
INK: RGB = (36, 32, 40)
SKINS: tuple[RGB, ...] = ((250, 214, 180), (226, 172, 126), (176, 118, 78), (120, 78, 52))


def shade(colour: RGB, factor: float) -> RGB:
    """Darken (factor < 1) or lighten (factor > 1, towards white) a colour."""
    if factor <= 1:
        r, g, b = (round(c * factor) for c in colour)
    else:
        r, g, b = (round(255 - (255 - c) * max(0.0, 2 - factor)) for c in colour)
    return r, g, b


def dye(name: str, rng: random.Random) -> RGB:
    """A shade of a named colour, varied slightly at random."""
    r, g, b = (min(255, max(0, c + rng.randint(-12, 12))) for c in PALETTE[name])
    return r, g, b


@cache
def _catmull_rom(steps: int) -> NDArray[np.float64]:
    """[steps, 4] weights of four neighbouring points along one span of the curve."""
    t = np.arange(steps) / steps
    return 0.5 * np.stack(
        [
            -(t**3) + 2 * t**2 - t,
            3 * t**3 - 5 * t**2 + 2,
            -3 * t**3 + 4 * t**2 + t,
            t**3 - t**2,
        ],
        axis=1,
    )


def smooth(points: Sequence[Point], steps: int = 6) -> list[Point]:
    """A closed Catmull-Rom curve through the points."""
    p = np.asarray(points, dtype=np.float64)
    spans = np.stack([np.roll(p, 1, 0), p, np.roll(p, -1, 0), np.roll(p, -2, 0)])  # [4, n, 2]
    curve = np.einsum("sk,knd->nsd", _catmull_rom(steps), spans).reshape(-1, 2)
    return [(x, y) for x, y in curve.tolist()]


class Brush:
    """Draws one object on a transparent canvas; x goes right and y down, both from 0 to 1.

    Args:
        width: canvas width in pixels.
        height: canvas height in pixels.
        colour: the object's main colour.
        rng: source of the small differences between two drawings of one kind.
    """

    def __init__(self, width: int, height: int, colour: RGB, rng: random.Random) -> None:
        self.image = Image.new("RGBA", (width, height))
        self.colour = colour
        self.dark = shade(colour, 0.72)
        self.light = shade(colour, 1.35)
        self.rng = rng
        self._draw = ImageDraw.Draw(self.image)
        self._width, self._height = width, height
        self._outline = max(1, round(min(width, height) * 0.014))

    def about(self, value: float, spread: float = 0.12) -> float:
        """The value, varied at random by up to the share `spread`."""
        return value * (1 + self.rng.uniform(-spread, spread))

    def _xy(self, x: float, y: float) -> Point:
        inner = 1 - 2 * MARGIN
        return (MARGIN + x * inner) * self._width, (MARGIN + y * inner) * self._height

    def poly(self, points: Sequence[Point], fill: RGB | None = None) -> None:
        """A filled polygon."""
        fill = fill or self.colour
        at = [self._xy(x, y) for x, y in points]
        self._draw.polygon(at, fill=fill, outline=shade(fill, 0.62), width=self._outline)

    def blob(self, points: Sequence[Point], fill: RGB | None = None) -> None:
        """A filled smooth closed curve through the points."""
        self.poly(smooth(points), fill)

    def rect(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        fill: RGB | None = None,
        corner: float = 0.0,
    ) -> None:
        """A filled rectangle; `corner` is the radius of its corners relative to the height."""
        fill = fill or self.colour
        self._draw.rounded_rectangle(
            [self._xy(x1, y1), self._xy(x2, y2)],
            radius=corner * self._height,
            fill=fill,
            outline=shade(fill, 0.62),
            width=self._outline,
        )

    def oval(self, x: float, y: float, rx: float, ry: float, fill: RGB | None = None) -> None:
        """A filled ellipse around (x, y)."""
        fill = fill or self.colour
        box = [self._xy(x - rx, y - ry), self._xy(x + rx, y + ry)]
        self._draw.ellipse(box, fill=fill, outline=shade(fill, 0.62), width=self._outline)

    def disc(self, x: float, y: float, r: float, fill: RGB | None = None) -> None:
        """A filled circle; `r` is relative to the height, so that it is round on any canvas."""
        self.oval(x, y, r * self._height / self._width, r, fill)

    def ring(self, x: float, y: float, r: float, width: float, fill: RGB) -> None:
        """A circle outline; radius and width are relative to the height."""
        rx = r * self._height / self._width
        box = [self._xy(x - rx, y - r), self._xy(x + rx, y + r)]
        self._draw.ellipse(box, outline=fill, width=max(1, round(width * self._height)))

    def line(self, points: Sequence[Point], width: float, fill: RGB | None = None) -> None:
        """A line with round ends; the width is relative to the height."""
        fill = fill or self.colour
        thick = max(1, round(width * self._height))
        at = [self._xy(x, y) for x, y in points]
        self._draw.line(at, fill=fill, width=thick, joint="curve")
        for x, y in (at[0], at[-1]):
            self._draw.ellipse(
                [x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2], fill=fill
            )

    def arc(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        end: float,
        width: float,
        fill: RGB | None = None,
    ) -> None:
        """An arc of an ellipse outline, in degrees clockwise from the right."""
        steps = np.linspace(math.radians(start), math.radians(end), 14).tolist()
        self.line([(x + rx * math.cos(a), y + ry * math.sin(a)) for a in steps], width, fill)

    def eye(self, x: float, y: float, r: float = 0.03) -> None:
        """A round eye with a glint."""
        self.disc(x, y, r, (250, 250, 250))
        self.disc(x, y, r * 0.7, INK)

"""The canvas for backgrounds: fills, skylines and sky, tinted by the light."""

from __future__ import annotations

import math
import random

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from training.scenes.drawings.brush import RGB, shade

LIGHTS: dict[str, tuple[float, float, float]] = {
    "day": (1.0, 1.0, 1.0),
    "dusk": (0.95, 0.76, 0.7),
    "night": (0.44, 0.5, 0.74),
    "lamplight": (0.86, 0.72, 0.56),
}

SKIES: dict[str, tuple[RGB, RGB]] = {
    "day": ((104, 172, 236), (206, 232, 250)),
    "dusk": ((98, 84, 150), (252, 172, 112)),
    "night": ((16, 24, 62), (58, 74, 128)),
}


class Backdrop:
    """An opaque square canvas with unit coordinates, whose colours are tinted by the light."""

    def __init__(self, side: int, light: str, rng: random.Random, indoors: bool = False) -> None:
        self.image = Image.new("RGB", (side, side))
        self.rng = rng
        self.light = light
        self.lit_by = "lamplight" if indoors and light == "night" else light
        self.side = side
        self._draw = ImageDraw.Draw(self.image)

    def tint(self, colour: RGB) -> RGB:
        """The colour under this scene's light, varied slightly at random."""
        factor = LIGHTS[self.lit_by]
        r, g, b = (
            min(255, max(0, round(c * f) + self.rng.randint(-8, 8)))
            for c, f in zip(colour, factor, strict=True)
        )
        return r, g, b

    def gradient(
        self, y1: float, y2: float, top: RGB, bottom: RGB, x1: float = 0, x2: float = 1
    ) -> None:
        """Fill a rectangle (the row at y2 included) with a gradient of untinted colours."""
        band = Image.new("RGB", (1, 2))
        band.putpixel((0, 0), top)
        band.putpixel((0, 1), bottom)
        size = round((x2 - x1) * self.side), round((y2 - y1) * self.side) + 1
        corner = round(x1 * self.side), round(y1 * self.side)
        self.image.paste(band.resize(size, Image.Resampling.BILINEAR), corner)

    def daylight(self, x: float, y: float, w: float, h: float) -> None:
        """The sky without clouds in a rectangle, as through a window."""
        self.gradient(y, y + h - 1 / self.side, *SKIES[self.light], x, x + w)

    def fill(self, y1: float, y2: float, top: RGB, bottom: RGB | None = None) -> None:
        """Fill the band from y1 to y2 with a gradient of tinted colours."""
        self.gradient(y1, y2, self.tint(top), self.tint(bottom or shade(top, 0.8)))

    def poly(self, points: list[tuple[float, float]], colour: RGB) -> None:
        """A tinted polygon."""
        at = [(x * self.side, y * self.side) for x, y in points]
        self._draw.polygon(at, fill=self.tint(colour))

    def rect(self, x1: float, y1: float, x2: float, y2: float, colour: RGB) -> None:
        """A tinted rectangle."""
        self.poly([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], colour)

    def oval(self, x: float, y: float, rx: float, ry: float, colour: RGB) -> None:
        """A tinted ellipse around (x, y)."""
        s = self.side
        box = [(x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s]
        self._draw.ellipse(box, fill=self.tint(colour))

    def line(self, points: list[tuple[float, float]], width: float, colour: RGB) -> None:
        """A tinted line."""
        at = [(x * self.side, y * self.side) for x, y in points]
        self._draw.line(at, fill=self.tint(colour), width=max(1, round(width * self.side)))

    def ridge(self, y: float, swing: float, colour: RGB, waves: float = 1.5) -> None:
        """A wavy skyline around y, filled to the bottom."""
        p, q = self.rng.uniform(0, math.tau), self.rng.uniform(0, math.tau)
        xs = [i / 24 for i in range(25)]
        line = [
            (x, y + swing * (math.sin(p + waves * math.tau * x) + 0.5 * math.sin(q + 13 * x)))
            for x in xs
        ]
        self.poly([*line, (1, 1), (0, 1)], colour)

    def sky(self, horizon: float) -> None:
        """Sky down to the horizon with small clouds, or with stars at night."""
        top, bottom = SKIES[self.light]
        self.gradient(0, horizon, top, bottom)
        if self.light == "night":
            for _ in range(self.rng.randint(15, 40)):
                x, y = self.rng.random() * self.side, self.rng.random() * horizon * self.side
                self._draw.ellipse([x, y, x + 2, y + 2], fill=(220, 224, 240))
            return
        for _ in range(self.rng.randint(0, 3)):
            self.cloud(self.rng.random(), self.rng.uniform(0.05, horizon * 0.7), 0.05)

    def cloud(self, x: float, y: float, r: float) -> None:
        """A small flat cloud."""
        for dx, dy, k in ((-1.2, 0.2, 0.6), (0, 0, 1.0), (1.1, 0.2, 0.7)):
            self.oval(x + dx * r, y + dy * r, r * k * 1.3, r * k * 0.7, (248, 248, 250))


def texture(image: Image.Image, grain: np.random.Generator) -> Image.Image:
    """Add soft blotches to flat fills, wider than high as in ground and clouds."""
    blotches = grain.integers(116, 141, size=(56, 28), dtype=np.uint8)
    soft = Image.fromarray(blotches).resize(image.size, Image.Resampling.BILINEAR)
    return ImageChops.add(image, Image.merge("RGB", [soft] * 3), 1.0, -128)

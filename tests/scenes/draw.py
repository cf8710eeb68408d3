"""Drawing one scene: its background, objects, weather and camera noise, from (seed, index).

What can be drawn is data (`drawings`); here are the canvas that draws it and the layout that
places objects so that each remains visible.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from tests.scenes.captions import Box, CaptionWriter, SceneObject, SceneRecord, overlap
from tests.scenes.drawings import (
    BACKDROPS,
    COLOURS,
    DRAWINGS,
    INDOORS,
    KINDS,
    NO_WEATHER,
    PALETTE,
    RGB,
    SMALL,
    TABLES,
    Kind,
    rgb,
)

SIDE = 192
OVERSAMPLING = 2
MARGIN = 0.04  # of an object's canvas, so that outlines on the edge are not cut
SCALES = {"small": 0.64, "medium": 1.0, "large": 1.4}
FAR = 0.82  # size of an object at the back of its zone relative to the front

LIGHTS: dict[str, list[float]] = TABLES["light_colours"]
SKIES = {light: (rgb(top), rgb(low)) for light, (top, low) in TABLES["skies"].items()}

Point = tuple[float, float]
Zones = dict[str, tuple[float, float]]
"""Zone ("ground", "water", "air") → range of heights for the feet of an object."""


# ---- drawings as text ---------------------------------------------------------------------------


class Step(NamedTuple):
    """A step of a drawing: an operation's arguments and colours, or what is done to other steps."""

    name: str
    groups: tuple[tuple[str, ...], ...]
    colours: tuple[str, ...]
    body: tuple[Step, ...]


@cache
def parse(text: str) -> tuple[Step, ...]:
    """The steps of a drawing; `drawings` says how they are written."""
    steps, depth, start = [], 0, 0
    for place, character in enumerate(text + ";"):
        depth += (character == "(") - (character == ")")
        if character == ";" and not depth:
            steps.append(_step(text[start:place].strip()))
            start = place + 1
    return tuple(steps)


def _step(text: str) -> Step:
    head, inner, body = text.partition("(")
    name, *words = head.split() if inner or "=" not in head else ("let", *head.split("="))
    colours = [word for word in words if re.match(r"#|[a-z]{2}|\d+:", word)]
    numbers = " ".join(word for word in words if name == "let" or word not in colours)
    groups = tuple(tuple(group.split()) for group in numbers.split(","))
    return Step(name, groups, tuple(colours), parse(body[:-1]) if inner else ())


@cache
def _plain(text: str) -> float | None:
    """The value of a number alone, which is of hundredths."""
    return float(text) / 100 if re.fullmatch(r"-?[\d.]+", text) else None


@cache
def _terms(text: str) -> list[tuple[float, list[str]]]:
    """A sum of products: the number of each, and its variables; a number alone is of hundredths."""
    terms = []
    for term in re.findall(r"[+-]?[^+-]+", text):
        number, names = (-1.0 if term[0] == "-" else 1.0), []
        for factor in term.lstrip("+-").split("*"):
            name, _, divisor = factor.partition("/")
            if name.isalpha():
                names.append(name)
                number /= float(divisor or 1)
            else:
                number *= float(name)
        terms.append((number if names else number / 100, names))
    return terms


class Canvas:
    """Draws steps on an image in unit coordinates, x to the right and y down."""

    def __init__(self, image: Image.Image, rng: random.Random, colours: dict[str, RGB]) -> None:
        self.image, self.rng = image, rng
        self.mirrored = False
        self._draw = ImageDraw.Draw(image)
        self._values: dict[str, float] = {}
        self._colours = COLOURS | colours
        self._path: list[float] = []

    def draw(self, steps: Iterable[Step]) -> None:
        for name, groups, colours, body in steps:
            if name == "let":
                ((variable, text),) = groups
                if len(variable) == 1:
                    self._values[variable] = self.value(text)
                else:
                    self._colours[variable] = self.colour(text)
            elif name == "mirror":
                for self.mirrored in (True, False):
                    self.draw(body)
            elif name == "maybe":
                if self.rng.random() < self.value(groups[0][0]):
                    self.draw(body)
            elif name == "turn":
                angle = math.tau * self.value(groups[0][0])
                self._values |= {"c": math.cos(angle), "s": math.sin(angle)}
                self.draw(body)
            elif body:
                count = self._count(name)
                for i in range(count):
                    self._values |= {"i": i / 100, "u": i / count}
                    self.draw(body)
            else:
                for group in groups:
                    numbers = [self.value(text) for text in group]
                    getattr(self, name)(numbers, *map(self.colour, colours))

    def value(self, text: str) -> float:
        if (plain := _plain(text)) is not None:
            return plain
        if "<" in text:
            low, middle, high = map(self.value, text.split("<"))
            return min(high, max(low, middle))
        if "|" in text:
            return self.value(self.rng.choice(text.split("|")))
        if "~" in text:
            return self.rng.uniform(*map(self.value, text.split("~")))
        if "±" in text:
            value, spread = map(self.value, text.split("±"))
            return value * (1 + self.rng.uniform(-spread, spread))
        total = 0.0
        for number, names in _terms(text):
            for name in names:
                number *= self._values[name]
            total += number
        return total

    def _count(self, text: str) -> int:
        if "~" in text:
            return self.rng.randint(*map(int, text.split("~")))
        return int(self.rng.choice(text.split("|")) if "|" in text else text)

    def colour(self, text: str) -> RGB:
        test, alternatives, pair = text.rpartition(":")
        if alternatives:
            limit = self.rng.random() < 0.5 if test == "half" else self._brightness < int(test)
            return self.colour(pair.split("/")[not limit])
        if "|" in text:
            return self.colour(self.rng.choice(text.split("|")))
        name, _, factor = text.partition("*")
        if name[0] == "#":
            return rgb(name)
        found = self._colours[name]
        return shade(found, float(factor) / 100) if factor else found

    @property
    def _brightness(self) -> int:
        return sum(self._colours["colour"])

    def at(self, point: Sequence[float]) -> None:
        """Keep a point for the next step, which names none."""
        self._path += point

    def points(self, numbers: Sequence[float]) -> list[Point]:
        """Points of a step, or those that were kept for it."""
        if not numbers:
            numbers, self._path = self._path, []
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def shade(colour: RGB, factor: float) -> RGB:
    """Darken (factor < 1) or lighten (factor > 1, towards white) a colour."""
    if factor <= 1:
        r, g, b = (round(c * factor) for c in colour)
    else:
        r, g, b = (round(255 - (255 - c) * max(0.0, 2 - factor)) for c in colour)
    return r, g, b


# ---- objects ------------------------------------------------------------------------------------


_T = np.arange(6) / 6
# [steps, 4] weights of four neighbouring points along one span of a Catmull-Rom curve
_WEIGHTS: NDArray[np.float64] = 0.5 * np.stack(
    [
        -(_T**3) + 2 * _T**2 - _T,
        3 * _T**3 - 5 * _T**2 + 2,
        -3 * _T**3 + 4 * _T**2 + _T,
        _T**3 - _T**2,
    ],
    axis=1,
)


def smooth(points: Sequence[Point]) -> list[Point]:
    """A closed Catmull-Rom curve through the points."""
    p = np.asarray(points, dtype=np.float64)
    spans = np.stack([np.roll(p, 1, 0), p, np.roll(p, -1, 0), np.roll(p, -2, 0)])  # [4, n, 2]
    curve = np.einsum("sk,knd->nsd", _WEIGHTS, spans).reshape(-1, 2)
    return [(x, y) for x, y in curve.tolist()]


class Brush(Canvas):
    """Draws one object with outlines on a transparent canvas."""

    def __init__(self, width: int, height: int, colour: RGB, rng: random.Random) -> None:
        golden = colour[2] > 90 or colour[1] < 120
        own = {
            "colour": colour,
            "dark": shade(colour, 0.72),
            "light": shade(colour, 1.35),
            "heart": (250, 206, 62) if golden else (120, 74, 40),
        }
        super().__init__(Image.new("RGBA", (width, height)), rng, own)
        self._width, self._height = width, height
        self._outline = max(1, round(min(width, height) * 0.014))

    def _xy(self, x: float, y: float) -> Point:
        # Rounded, a mirrored place is the number that one would write.
        x, inner = round(1 - x, 12) if self.mirrored else x, 1 - 2 * MARGIN
        return (MARGIN + x * inner) * self._width, (MARGIN + y * inner) * self._height

    def _box(self, x1: float, y1: float, x2: float, y2: float) -> list[Point]:
        left, right = (x2, x1) if self.mirrored else (x1, x2)
        return [self._xy(left, y1), self._xy(right, y2)]

    def _filled(self, fill: RGB | None) -> dict[str, Any]:
        fill = fill or self._colours["colour"]
        return {"fill": fill, "outline": shade(fill, 0.62), "width": self._outline}

    def _polygon(self, points: list[Point], fill: RGB | None) -> None:
        self._draw.polygon([self._xy(x, y) for x, y in points], **self._filled(fill))

    def poly(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        self._polygon(self.points(numbers), fill)

    def blob(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        """A smooth closed curve through points."""
        self._polygon(smooth(self.points(numbers)), fill)

    def rect(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        """Two corners; a fifth number rounds them, relative to the height."""
        radius = numbers[4] * self._height if len(numbers) > 4 else 0
        x1, y1, x2, y2 = numbers[:4]
        self._draw.rounded_rectangle(self._box(x1, y1, x2, y2), radius=radius, **self._filled(fill))

    def oval(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        x, y, rx, ry = numbers
        self._draw.ellipse(self._box(x - rx, y - ry, x + rx, y + ry), **self._filled(fill))

    def disc(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        """A circle; the radius is relative to the height, so that it is round on any canvas."""
        x, y, r = numbers
        self.oval((x, y, r * self._height / self._width, r), fill)

    def ring(self, numbers: Sequence[float], fill: RGB) -> None:
        """A circle's outline: centre, radius and width."""
        x, y, r, width = numbers
        rx = r * self._height / self._width
        box = self._box(x - rx, y - r, x + rx, y + r)
        self._draw.ellipse(box, outline=fill, width=max(1, round(width * self._height)))

    def line(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        """A line with round ends: points, and the width relative to the height."""
        self._stroke(self.points(numbers[:-1]), numbers[-1], fill)

    def _stroke(self, points: list[Point], width: float, fill: RGB | None) -> None:
        fill, thick = fill or self._colours["colour"], max(1, round(width * self._height))
        at = [self._xy(x, y) for x, y in points]
        self._draw.line(at, fill=fill, width=thick, joint="curve")
        for x, y in (at[0], at[-1]):
            half = thick / 2
            self._draw.ellipse([x - half, y - half, x + half, y + half], fill=fill)

    def arc(self, numbers: Sequence[float], fill: RGB | None = None) -> None:
        """An arc of an ellipse: centre, radii, start and end in degrees from the right, width."""
        x, y, rx, ry, start, end, width = numbers
        steps = np.linspace(math.radians(100 * start), math.radians(100 * end), 14).tolist()
        self._stroke([(x + rx * math.cos(a), y + ry * math.sin(a)) for a in steps], width, fill)

    def eye(self, numbers: Sequence[float]) -> None:
        """A round eye: centre and radius."""
        x, y, r = numbers
        self.disc((x, y, r), (250, 250, 250))
        self.disc((x, y, r * 0.7), self._colours["ink"])


def draw_kind(label: str, colour: str, height: int, rng: random.Random) -> Image.Image:
    """Draw one object: RGBA, cropped to its pixels, about `height` pixels high."""
    kind = KINDS[label]
    r, g, b = (min(255, max(0, c + rng.randint(-12, 12))) for c in PALETTE[colour])
    brush = Brush(max(8, round(height * kind.aspect)), max(8, height), (r, g, b), rng)
    brush.draw(parse(DRAWINGS[label]))
    image = brush.image.crop(brush.image.getbbox())
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


# ---- backgrounds --------------------------------------------------------------------------------


class Backdrop(Canvas):
    """Draws a background, whose colours are tinted by the light.

    Attributes:
        zones: in which objects can be placed.
    """

    def __init__(self, name: str, side: int, light: str, rng: random.Random) -> None:
        super().__init__(Image.new("RGB", (side, side)), rng, {})
        self.name, self.side, self.light = name, side, light
        self.lit_by = "lamplight" if name in INDOORS and light == "night" else light
        steps, _, zones = BACKDROPS[name].partition("=>")
        self.draw(parse(steps))
        self.zones: Zones = {}
        for zone, range_ in (one.split() for one in zones.split(";")):
            back, front = map(self.value, range_.split("~"))
            self.zones[zone] = back, front

    def _tint(self, colour: RGB) -> RGB:
        """The colour under this scene's light, varied slightly at random."""
        r, g, b = (
            min(255, max(0, round(c * f) + self.rng.randint(-8, 8)))
            for c, f in zip(colour, LIGHTS[self.lit_by], strict=True)
        )
        return r, g, b

    def _gradient(
        self, y1: float, y2: float, top: RGB, bottom: RGB, x1: float = 0, x2: float = 1
    ) -> None:
        """Fill a rectangle (the row at y2 included) with a gradient of untinted colours."""
        band = Image.new("RGB", (1, 2))
        band.putpixel((0, 0), top)
        band.putpixel((0, 1), bottom)
        size = round((x2 - x1) * self.side), round((y2 - y1) * self.side) + 1
        corner = round(x1 * self.side), round(y1 * self.side)
        self.image.paste(band.resize(size, Image.Resampling.BILINEAR), corner)

    def _scaled(self, numbers: Sequence[float]) -> list[float]:
        return [number * self.side for number in numbers]

    def fill(self, numbers: Sequence[float], top: RGB, bottom: RGB | None = None) -> None:
        """A band from y1 to y2."""
        y1, y2 = numbers
        self._gradient(y1, y2, self._tint(top), self._tint(bottom or shade(top, 0.8)))

    def daylight(self, numbers: Sequence[float]) -> None:
        """The sky without clouds in a rectangle, as through a window: x, y, width, height."""
        x, y, w, h = numbers
        self._gradient(y, y + h - 1 / self.side, *SKIES[self.light], x, x + w)

    def poly(self, numbers: Sequence[float], colour: RGB) -> None:
        self._draw.polygon(self._scaled(numbers), fill=self._tint(colour))

    def rect(self, numbers: Sequence[float], colour: RGB) -> None:
        x1, y1, x2, y2 = numbers
        self.poly((x1, y1, x2, y1, x2, y2, x1, y2), colour)

    def oval(self, numbers: Sequence[float], colour: RGB) -> None:
        x, y, rx, ry = numbers
        box = self._scaled((x - rx, y - ry, x + rx, y + ry))
        self._draw.ellipse(box, fill=self._tint(colour))

    def line(self, numbers: Sequence[float], colour: RGB) -> None:
        """Points of a line, and its width."""
        at = [(x * self.side, y * self.side) for x, y in self.points(numbers[:-1])]
        width = max(1, round(numbers[-1] * self.side))
        self._draw.line(at, fill=self._tint(colour), width=width)

    def ridge(self, numbers: Sequence[float], colour: RGB) -> None:
        """A wavy skyline, filled to the bottom: height, swing, and waves if not one and a half."""
        y, swing, waves = (*numbers, 1.5)[:3]
        p, q = self.rng.uniform(0, math.tau), self.rng.uniform(0, math.tau)
        points = []
        for x in (i / 24 for i in range(25)):
            wave = math.sin(p + waves * math.tau * x) + 0.5 * math.sin(q + 13 * x)
            points += [x, y + swing * wave]
        self.poly([*points, 1, 1, 0, 1], colour)

    def sky(self, numbers: Sequence[float]) -> None:
        """Sky down to the horizon with small clouds, or with stars at night."""
        (horizon,) = numbers
        self._gradient(0, horizon, *SKIES[self.light])
        if self.light == "night":
            for _ in range(self.rng.randint(15, 40)):
                x, y = self.rng.random() * self.side, self.rng.random() * horizon * self.side
                self._draw.ellipse([x, y, x + 2, y + 2], fill=(220, 224, 240))
            return
        for _ in range(self.rng.randint(0, 3)):
            self.cloud((self.rng.random(), self.rng.uniform(0.05, horizon * 0.7), 0.05))

    def cloud(self, numbers: Sequence[float]) -> None:
        """A small flat cloud: centre and radius."""
        x, y, r = numbers
        for dx, dy, k in ((-1.2, 0.2, 0.6), (0, 0, 1.0), (1.1, 0.2, 0.7)):
            self.oval((x + dx * r, y + dy * r, r * k * 1.3, r * k * 0.7), (248, 248, 250))

    def houses(self, _: Sequence[float]) -> None:
        """A row of buildings with windows, lit at night."""
        x = -0.05
        while x < 1:
            w, top = self.rng.uniform(0.13, 0.26), self.rng.uniform(0.12, 0.36)
            self.rect((x, top, x + w, 0.64), self.colour("#b29c8c|#969ca8|#bcac96|#9e827a"))
            for row in range(int((0.58 - top) / 0.1)):
                for i in range(int(w / 0.055)):
                    lit = self.rng.random() < (0.5 if self.light == "night" else 0.1)
                    wx, wy = x + 0.02 + i * 0.055, top + 0.04 + row * 0.1
                    pane = (255, 255, 190) if lit else (104, 120, 140)
                    self.rect((wx, wy, wx + 0.028, wy + 0.05), pane)
            x += w


# ---- layout -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sprite:
    """A drawn object, and the upper left corner of its pixels on the canvas."""

    item: SceneObject
    image: Image.Image
    corner: tuple[int, int]
    zone: str


def _lit(image: Image.Image, light: str) -> Image.Image:
    """Light an object from above: brighter at the top, tinted by half of the scene's light."""
    shades = Image.new("RGB", (1, 2))
    for y, strength in enumerate((1.0, 0.84)):
        r, g, b = (round(255 * strength * (0.5 + 0.5 * f)) for f in LIGHTS[light])
        shades.putpixel((0, y), (r, g, b))
    tint = shades.resize(image.size, Image.Resampling.BILINEAR)
    result = ImageChops.multiply(image.convert("RGB"), tint)
    result.putalpha(image.getchannel("A"))
    return result


class SceneLayout:
    """Places objects on a square canvas so that each remains visible."""

    def __init__(self, backdrop: Backdrop, rng: random.Random) -> None:
        self.backdrop, self.zones, self.rng = backdrop, backdrop.zones, rng
        self.sprites: list[Sprite] = []

    def compose(self) -> list[Sprite]:
        """Sample and place one to four groups of objects; sprites in drawing order."""
        groups = self.rng.choices((1, 2, 3, 4), (0.16, 0.4, 0.32, 0.12))[0]
        while not self.sprites:
            for _ in range(groups):
                self._add_group(self._choose_kind())
        return self._by_depth()

    def _choose_kind(self) -> str:
        name = self.backdrop.name
        fits = [label for label, kind in KINDS.items() if self.backdrop.light in kind.lights]
        home = [label for label in fits if name in KINDS[label].places]
        heavenly = {"sun", "moon", "star"} if name in INDOORS else set()
        odd = [label for label in fits if label not in heavenly]
        return self.rng.choice(home if self.rng.random() < 0.86 else odd)

    def _add_group(self, label: str) -> None:
        kind, rng = KINDS[label], self.rng
        count = 1 if label in ("sun", "moon") else rng.choices((1, 2, 3, 4), (70, 17, 8, 5))[0]
        if len(self.sprites) + count > 7:
            return
        colour, size = rng.choice(kind.colours), rng.choice(("small", "medium", "medium", "large"))
        mixed = count > 1 and rng.random() < 0.2
        for _ in range(count):
            placed = self._place(label, rng.choice(kind.colours) if mixed else colour, size)
            if placed is not None and kind.top is not None and rng.random() < 0.45:
                self._place_on(placed, kind.top)

    def _zone(self, kind: Kind) -> str:
        rest = "water" if "water" in self.zones else "air"
        return next((zone for zone in kind.zones if zone in self.zones), rest)

    def _place(self, label: str, colour: str, size: str) -> int | None:
        """Try to place one object in its zone; its index, or None if there is no room."""
        kind, rng = KINDS[label], self.rng
        zone = self._zone(kind)
        back, front = self.zones[zone]
        room = 0.4 if rng.random() < 0.3 else 0.05
        for _ in range(10):
            feet = rng.uniform(back, front)
            scale = SCALES[size] * rng.uniform(0.94, 1.06)
            if zone != "air":
                scale *= FAR + (1 - FAR) * (feet - back) / (front - back)
            height = min(0.7, kind.height * scale)
            width = height * kind.aspect
            if width > 0.9:
                height, width = height * 0.9 / width, 0.9
            feet = max(feet, height + 0.01)
            x = rng.uniform(0.01, max(0.011, 0.99 - width))
            box = (x, feet - height, x + width, feet)
            if all(overlap(box, s.item.box) <= room for s in self.sprites):
                return self._draw(label, colour, size, zone, box, None)
        return None

    def _place_on(self, support: int, top: float) -> None:
        """Try to place a small object on the surface of a piece of furniture."""
        base, rng = self.sprites[support].item, self.rng
        label = rng.choice([n for n in SMALL if self.backdrop.light in KINDS[n].lights])
        kind = KINDS[label]
        x1, y1, x2, y2 = base.box
        height = kind.height * 0.8 * (SCALES[base.size] * 0.5 + 0.5)
        width = height * kind.aspect
        feet = y1 + top * (y2 - y1)
        if width > (x2 - x1) * 0.9 or feet - height < 0.01:
            return
        x = rng.uniform(x1 + 0.05 * (x2 - x1), x2 - 0.05 * (x2 - x1) - width)
        box = (x, feet - height, x + width, feet + 0.008)
        others = (s.item.box for i, s in enumerate(self.sprites) if i != support)
        if all(overlap(box, other) <= 0.05 for other in others):
            self._draw(label, rng.choice(kind.colours), "medium", "ground", box, support)

    def _draw(
        self, label: str, colour: str, size: str, zone: str, box: Box, support: int | None
    ) -> int:
        """Draw an object into the box and record the tight box of the drawn pixels; its index."""
        side = self.backdrop.side
        image = draw_kind(label, colour, round((box[3] - box[1]) * side), self.rng)
        left = round((box[0] + box[2]) / 2 * side - image.width / 2)
        left = min(max(0, left), side - image.width)
        upper = min(max(0, round(box[3] * side) - image.height), side - image.height)
        right, lower = left + image.width, upper + image.height
        tight = left / side, upper / side, right / side, lower / side
        action = None if support is not None else KINDS[label].actions.get(zone)
        item = SceneObject(label, colour, size, action, tight, 0, support)
        self.sprites.append(Sprite(item, _lit(image, self.backdrop.lit_by), (left, upper), zone))
        return len(self.sprites) - 1

    def _by_depth(self) -> list[Sprite]:
        """Sprites from far to near: air first, then by the height of the feet; supports first."""

        def depth(index: int) -> tuple[bool, float, bool]:
            item = self.sprites[index].item
            base = self.sprites[index if item.support is None else item.support]
            return base.zone != "air", base.item.box[3], item.support is not None

        order = sorted(range(len(self.sprites)), key=depth)
        rank: dict[int | None, int | None] = {old: new for new, old in enumerate(order)}
        return [
            replace(
                sprite, item=replace(sprite.item, depth=new, support=rank.get(sprite.item.support))
            )
            for new, sprite in enumerate(self.sprites[old] for old in order)
        ]


def paste(canvas: Image.Image, sprite: Sprite) -> None:
    """Draw a sprite on the canvas, with a soft shadow if it stands on the ground."""
    x, y = sprite.corner
    width, height = sprite.image.size
    if sprite.zone == "ground" and sprite.item.support is None:
        flat = max(3, round(width * 0.08))
        shadow = Image.new("L", (width, 2 * flat))
        ImageDraw.Draw(shadow).ellipse([0, 0, width - 1, 2 * flat - 1], fill=80)
        canvas.paste((20, 20, 30), (x, y + height - flat - 1), shadow)
    canvas.paste(sprite.image, (x, y), sprite.image)


# ---- the scene ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    image: Image.Image  # RGB, 192 × 192
    record: SceneRecord  # background, light, weather and objects
    texts: list[str]  # five different captions


def render_scene(seed: int, index: int) -> Scene:
    """Render scene `index` of the corpus with this seed, always the same for the same pair."""
    rng = random.Random(f"{seed}/{index}")
    grain = np.random.default_rng([seed, index])
    background = rng.choice(sorted(BACKDROPS))
    light = rng.choices(("day", "dusk", "night"), (0.6, 0.2, 0.2))[0]
    weather = "clear"
    if background not in NO_WEATHER and rng.random() < 0.25:
        weather = rng.choice(("rain", "snow", "fog") if background != "desert" else ("fog", "rain"))
    backdrop = Backdrop(background, SIDE * OVERSAMPLING, light, rng)
    canvas = _texture(backdrop.image, grain)
    sprites = SceneLayout(backdrop, rng).compose()
    for sprite in sprites:
        paste(canvas, sprite)
    _precipitate(canvas, weather, rng)
    image = _photograph(canvas.reduce(OVERSAMPLING), grain)
    record = SceneRecord(background, light, weather, tuple(s.item for s in sprites))
    return Scene(image, record, CaptionWriter(record, rng).write())


def _texture(image: Image.Image, grain: np.random.Generator) -> Image.Image:
    """Add soft blotches to flat fills, wider than high as in ground and clouds."""
    blotches = grain.integers(116, 141, size=(56, 28), dtype=np.uint8)
    soft = Image.fromarray(blotches).resize(image.size, Image.Resampling.BILINEAR)
    return ImageChops.add(image, Image.merge("RGB", [soft] * 3), 1.0, -128)


def _precipitate(canvas: Image.Image, weather: str, rng: random.Random) -> None:
    """Rain streaks, snow flakes or fog in front of the scene."""
    side = canvas.width
    if weather == "fog":
        veil = Image.linear_gradient("L").resize(canvas.size).point(lambda v: 165 - v // 3)
        canvas.paste((206, 210, 216), (0, 0), veil)
    elif weather in ("rain", "snow"):
        layer = Image.new("L", canvas.size)
        draw = ImageDraw.Draw(layer)
        slant = rng.uniform(-0.3, 0.3)
        for _ in range(110 if weather == "rain" else 90):
            x, y = rng.random() * side, rng.random() * side
            if weather == "rain":
                length = rng.uniform(12, 26)
                draw.line([x, y, x + slant * length, y + length], fill=120, width=2)
            else:
                r = rng.uniform(2, 5)
                draw.ellipse([x - r, y - r, x + r, y + r], fill=220)
        canvas.paste((236, 240, 246), (0, 0), layer)


def _photograph(image: Image.Image, grain: np.random.Generator) -> Image.Image:
    """Camera effects: slight blur, uneven exposure, sensor noise."""
    if grain.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(float(grain.uniform(0.3, 0.8))))
    pixels = np.asarray(image, dtype=np.float32)
    left, right = grain.uniform(0.9, 1.08, 2).tolist()
    exposure = np.linspace(left, right, SIDE, dtype=np.float32)
    noise = grain.standard_normal(pixels.shape[:2], dtype=np.float32) * grain.uniform(2, 7)
    pixels = pixels * exposure[None, :, None] + noise[:, :, None].astype(np.float32)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))

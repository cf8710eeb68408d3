"""Composing a scene: choosing its objects, their places and sizes, and their drawing order."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from PIL import Image, ImageChops, ImageDraw

from training.scenes.backdrops import INDOORS, Zones
from training.scenes.canvas import LIGHTS, Backdrop
from training.scenes.drawings.brush import Brush, dye
from training.scenes.facts import Box, SceneObject, overlap
from training.scenes.kinds import KINDS, SMALL, Kind

SCALES = {"small": 0.64, "medium": 1.0, "large": 1.4}
FAR = 0.82  # size of an object at the back of its zone relative to the front


@dataclass(frozen=True)
class Sprite:
    """A drawn object, and the upper left corner of its pixels on the canvas."""

    item: SceneObject
    image: Image.Image
    corner: tuple[int, int]
    zone: str


def draw_kind(label: str, colour: str, height: int, rng: random.Random) -> Image.Image:
    """Draw one object: RGBA, cropped to its pixels, about `height` pixels high."""
    kind = KINDS[label]
    brush = Brush(max(8, round(height * kind.aspect)), max(8, height), dye(colour, rng), rng)
    kind.draw(brush)
    image = brush.image.crop(brush.image.getbbox())
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def lit(image: Image.Image, light: str) -> Image.Image:
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
    """Places objects on a square canvas so that each remains visible.

    Args:
        background: its name.
        backdrop: the drawn background.
        zones: of the background.
        rng: source of random choices.
    """

    def __init__(
        self, background: str, backdrop: Backdrop, zones: Zones, rng: random.Random
    ) -> None:
        self.background, self.zones, self.rng = background, zones, rng
        self.light, self.lit_by, self.side = backdrop.light, backdrop.lit_by, backdrop.side
        self.sprites: list[Sprite] = []

    def compose(self) -> list[Sprite]:
        """Sample and place one to four groups of objects; sprites in drawing order."""
        groups = self.rng.choices((1, 2, 3, 4), (0.16, 0.4, 0.32, 0.12))[0]
        while not self.sprites:
            for _ in range(groups):
                self._add_group(self._choose_kind())
        return self._by_depth()

    def _choose_kind(self) -> str:
        fits = [n for n, k in KINDS.items() if self.light in k.lights]
        home = [n for n in fits if self.background in KINDS[n].places]
        odd = [
            n for n in fits if not {"sun", "moon", "star"} & {n} or self.background not in INDOORS
        ]
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
        for zone in kind.zones:
            if zone in self.zones:
                return zone
        return "water" if "water" in self.zones else "air"

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
        label = rng.choice([n for n in SMALL if self.light in KINDS[n].lights])
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
        side = self.side
        image = draw_kind(label, colour, round((box[3] - box[1]) * side), self.rng)
        left = round((box[0] + box[2]) / 2 * side - image.width / 2)
        left = min(max(0, left), side - image.width)
        upper = min(max(0, round(box[3] * side) - image.height), side - image.height)
        tight = (
            left / side,
            upper / side,
            (left + image.width) / side,
            (upper + image.height) / side,
        )
        action = None if support is not None else KINDS[label].actions.get(zone)
        item = SceneObject(label, colour, size, action, tight, 0, support)
        self.sprites.append(Sprite(item, lit(image, self.lit_by), (left, upper), zone))
        return len(self.sprites) - 1

    def _by_depth(self) -> list[Sprite]:
        """Sprites from far to near: air first, then by the height of the feet; supports first."""

        def depth(index: int) -> tuple[bool, float, bool]:
            item = self.sprites[index].item
            base = self.sprites[index if item.support is None else item.support]
            return base.zone != "air", base.item.box[3], item.support is not None

        order = sorted(range(len(self.sprites)), key=depth)
        rank = {old: new for new, old in enumerate(order)}
        result = []
        for new, old in enumerate(order):
            item = self.sprites[old].item
            support = None if item.support is None else rank[item.support]
            result.append(
                replace(self.sprites[old], item=replace(item, depth=new, support=support))
            )
        return result


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

"""Rendering one scene: image, description and captions, a function of (seed, index).

A scene is drawn in four steps: a background (`backdrops`), objects placed on it (`layout`, drawn
as `kinds` lists them), weather and camera noise (here), and five captions written from the
description (`captions`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from training.scenes.backdrops import BACKDROPS, INDOORS, NO_WEATHER
from training.scenes.canvas import Backdrop, texture
from training.scenes.captions import Caption, CaptionWriter
from training.scenes.facts import SceneRecord
from training.scenes.layout import SceneLayout, paste

SIDE = 192
OVERSAMPLING = 2
CORPUS_VERSION = 1  # increase it when the same seed gives other scenes or captions


@dataclass(frozen=True)
class Scene:
    """A rendered scene.

    Attributes:
        image: RGB, 192 × 192.
        record: background, light, weather and objects.
        captions: five different captions with the facts they state.
    """

    image: Image.Image
    record: SceneRecord
    captions: tuple[Caption, ...]

    @property
    def texts(self) -> list[str]:
        """The texts of the captions."""
        return [caption.text for caption in self.captions]


def render_scene(seed: int, index: int) -> Scene:
    """Render scene `index` of the corpus with this seed, always the same for the same pair."""
    rng = random.Random(f"{seed}/{index}")
    grain = np.random.default_rng([seed, index])
    background = rng.choice(sorted(BACKDROPS))
    light = rng.choices(("day", "dusk", "night"), (0.6, 0.2, 0.2))[0]
    weather = "clear"
    if background not in NO_WEATHER and rng.random() < 0.25:
        weather = rng.choice(("rain", "snow", "fog") if background != "desert" else ("fog", "rain"))
    backdrop = Backdrop(SIDE * OVERSAMPLING, light, rng, background in INDOORS)
    zones = BACKDROPS[background](backdrop)
    canvas = texture(backdrop.image, grain)
    sprites = SceneLayout(background, backdrop, zones, rng).compose()
    for sprite in sprites:
        paste(canvas, sprite)
    image = _photograph(_precipitate(canvas, weather, rng).reduce(OVERSAMPLING), grain)
    record = SceneRecord(background, light, weather, tuple(s.item for s in sprites))
    return Scene(image, record, tuple(CaptionWriter(record, rng).write()))


def _precipitate(canvas: Image.Image, weather: str, rng: random.Random) -> Image.Image:
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
    return canvas


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

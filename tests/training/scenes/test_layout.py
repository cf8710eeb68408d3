import random

import numpy as np
import pytest
from PIL import Image

from training.scenes.backdrops import BACKDROPS
from training.scenes.canvas import Backdrop
from training.scenes.drawings.brush import PALETTE
from training.scenes.kinds import KINDS
from training.scenes.layout import SceneLayout, Sprite, draw_kind, paste
from training.scenes.render import SIDE


def _sprites(index: int) -> tuple[list[Sprite], int]:
    rng = random.Random(index)
    background = rng.choice(sorted(BACKDROPS))
    backdrop = Backdrop(2 * SIDE, "day", rng)
    zones = BACKDROPS[background](backdrop)
    return SceneLayout(background, backdrop, zones, rng).compose(), 2 * SIDE


@pytest.mark.parametrize("index", range(12))
def test_a_box_is_the_bounds_of_the_pixels_drawn(index: int) -> None:
    sprites, side = _sprites(index)
    for sprite in sprites:
        canvas = Image.new("RGB", (side, side), (255, 0, 255))
        paste(canvas, sprite)
        rows, columns = np.nonzero((np.asarray(canvas) != (255, 0, 255)).any(axis=2))
        x1, y1, x2, y2 = (v * side for v in sprite.item.box)
        assert abs(columns.min() - x1) <= 1
        assert abs(columns.max() + 1 - x2) <= 1
        assert abs(rows.min() - y1) <= 1
        shadow = 0.09 * (x2 - x1) + 3
        assert -1 <= rows.max() + 1 - y2 <= shadow


@pytest.mark.parametrize("label", KINDS)
def test_every_kind_is_drawn_in_its_proportions_and_colour(label: str) -> None:
    kind = KINDS[label]
    for colour in kind.colours:
        image = draw_kind(label, colour, 120, random.Random(4))
        assert 0.65 * 120 < image.height <= 120
        assert 0.65 * kind.aspect < image.width / 120 <= kind.aspect + 0.01
        pixels = np.asarray(image)
        shown = pixels[pixels[..., 3] > 0][:, :3].astype(int)
        near = np.abs(shown - PALETTE[colour]).max(axis=1) <= 12
        assert near.mean() > 0.05, f"{colour} {label} shows too little of its colour"


def test_two_drawings_of_a_kind_differ() -> None:
    drawings = {draw_kind("dog", "brown", 80, random.Random(i)).tobytes() for i in range(6)}
    assert len(drawings) == 6

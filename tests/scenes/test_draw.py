"""The renderer: reproducible, varied, with boxes that fit what was drawn."""

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from tests.scenes.captions import overlap
from tests.scenes.draw import (
    SIDE,
    Backdrop,
    Scene,
    SceneLayout,
    Sprite,
    draw_kind,
    paste,
    render_scene,
)
from tests.scenes.drawings import BACKDROPS, KINDS, PALETTE


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [render_scene(5, index) for index in range(300)]


def test_same_seed_and_index_give_the_same_scene() -> None:
    first, again = render_scene(1, 7), render_scene(1, 7)
    assert first.image.tobytes() == again.image.tobytes()
    assert first.record == again.record
    assert first.captions == again.captions


@pytest.mark.parametrize("other", [(1, 8), (2, 7)])
def test_another_seed_or_index_gives_another_scene(other: tuple[int, int]) -> None:
    assert render_scene(1, 7).image.tobytes() != render_scene(*other).image.tobytes()


def test_kinds_backgrounds_colours_sizes_counts_and_lights_all_appear(scenes: list[Scene]) -> None:
    objects = [o for scene in scenes for o in scene.record.objects]
    assert {o.label for o in objects} == KINDS.keys()
    assert len(KINDS) >= 30
    assert {scene.record.background for scene in scenes} == BACKDROPS.keys()
    assert len(BACKDROPS) >= 8
    assert {o.colour for o in objects} == PALETTE.keys()
    assert {o.size for o in objects} == {"small", "medium", "large"}
    assert {scene.record.light for scene in scenes} == {"day", "dusk", "night"}
    assert {scene.record.weather for scene in scenes} == {"clear", "rain", "snow", "fog"}
    same = [max(Counter(o.label for o in scene.record.objects).values()) for scene in scenes]
    assert {1, 2, 3, 4} <= set(same)


def test_boxes_lie_in_the_image_and_objects_stay_visible(scenes: list[Scene]) -> None:
    overlapping = 0
    for scene in scenes:
        for o in scene.record.objects:
            x1, y1, x2, y2 = o.box
            assert 0 <= x1 < x2 <= 1
            assert 0 <= y1 < y2 <= 1
        for a, b in combinations(scene.record.objects, 2):
            if a.support is None and b.support is None:
                assert overlap(a.box, b.box) < 0.5
                overlapping += overlap(a.box, b.box) > 0.06
    assert overlapping > 20  # occlusion does happen


def _sprites(index: int) -> tuple[list[Sprite], int]:
    rng = random.Random(index)
    background = rng.choice(sorted(BACKDROPS))
    return SceneLayout(Backdrop(background, 2 * SIDE, "day", rng), rng).compose(), 2 * SIDE


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

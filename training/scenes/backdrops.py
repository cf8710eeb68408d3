"""The twelve backgrounds of scenes, each with the zones in which objects can be placed."""

from __future__ import annotations

import math
from collections.abc import Callable

from training.scenes.canvas import Backdrop
from training.scenes.drawings.brush import shade

Zones = dict[str, tuple[float, float]]
"""Zone ("ground", "water", "air") → range of heights for the feet of an object."""


def beach(b: Backdrop) -> Zones:
    """Sky, sea with waves, sand."""
    h = b.rng.uniform(0.3, 0.42)
    b.sky(h)
    b.fill(h, 0.66, (52, 128, 190), (96, 190, 206))
    for _ in range(7):
        x, y = b.rng.random(), b.rng.uniform(h + 0.03, 0.58)
        b.line([(x, y), (x + b.rng.uniform(0.05, 0.15), y)], 0.006, (220, 240, 246))
    b.ridge(0.64, 0.012, (244, 248, 246))
    b.ridge(0.66, 0.012, (238, 214, 160))
    for _ in range(14):
        b.oval(b.rng.random(), b.rng.uniform(0.74, 1), 0.008, 0.004, (206, 178, 124))
    return {"air": (0.2, h), "water": (h + 0.08, 0.6), "ground": (0.74, 0.97)}


def forest(b: Backdrop) -> Zones:
    """Rows of trunks in green shade above a floor of moss."""
    b.fill(0, 0.7, (126, 170, 120), (70, 112, 70))
    for depth in range(2):
        for _ in range(7):
            x, w = b.rng.random(), b.rng.uniform(0.015, 0.035) * (1 + depth)
            bark = ((96, 104, 78), (74, 60, 46))[depth]
            b.rect(x - w / 2, 0, x + w / 2, 0.68 + depth * 0.04, bark)
    for _ in range(16):
        x, r = b.rng.random(), b.rng.uniform(0.06, 0.13)
        b.oval(
            x, b.rng.uniform(-0.04, 0.1), r, r * 0.7, b.rng.choice(((46, 96, 52), (60, 116, 58)))
        )
    b.ridge(0.66, 0.015, (70, 104, 52))
    b.ridge(0.76, 0.015, (88, 92, 50))
    return {"air": (0.28, 0.52), "ground": (0.76, 0.97)}


def street(b: Backdrop) -> Zones:
    """A row of buildings, pavement, and a road with a dashed line."""
    b.sky(0.6)
    x = -0.05
    while x < 1:
        w, top = b.rng.uniform(0.13, 0.26), b.rng.uniform(0.12, 0.36)
        wall = b.rng.choice(((178, 156, 140), (150, 156, 168), (188, 172, 150), (158, 130, 122)))
        b.rect(x, top, x + w, 0.64, wall)
        for row in range(int((0.58 - top) / 0.1)):
            for i in range(int(w / 0.055)):
                lit = b.rng.random() < (0.5 if b.light == "night" else 0.1)
                pane = (255, 255, 190) if lit else (104, 120, 140)
                wx, wy = x + 0.02 + i * 0.055, top + 0.04 + row * 0.1
                b.rect(wx, wy, wx + 0.028, wy + 0.05, pane)
        x += w
    b.fill(0.62, 0.7, (186, 182, 176))
    b.fill(0.7, 1.0, (104, 106, 112), (84, 86, 92))
    shift = b.rng.random() * 0.2
    for i in range(6):
        b.rect(shift + i * 0.2 - 0.15, 0.84, shift + i * 0.2 - 0.05, 0.855, (236, 232, 214))
    return {"air": (0.2, 0.42), "ground": (0.74, 0.97)}


def mountain(b: Backdrop) -> Zones:
    """Snowy peaks above a field of snow."""
    b.sky(0.7)
    for i in range(4):
        x, top, w = (
            i * 0.3 + b.rng.uniform(-0.08, 0.12),
            b.rng.uniform(0.12, 0.34),
            b.rng.uniform(0.24, 0.36),
        )
        b.poly([(x, top), (x + w, 0.72), (x - w, 0.72)], (116, 126, 150))
        c = 0.36
        b.poly(
            [
                (x, top),
                (x + w * c, top + (0.72 - top) * c),
                (x + w * 0.1, top + (0.72 - top) * 0.28),
                (x - w * 0.12, top + (0.72 - top) * 0.4),
                (x - w * c, top + (0.72 - top) * c),
            ],
            (246, 248, 252),
        )
    b.ridge(0.64, 0.02, (220, 230, 242))
    b.ridge(0.74, 0.015, (240, 244, 250))
    return {"air": (0.2, 0.45), "ground": (0.76, 0.97)}


def desert(b: Backdrop) -> Zones:
    """Dunes under a wide sky."""
    b.sky(0.6)
    b.ridge(0.5, 0.04, (226, 178, 112), 1.2)
    b.ridge(0.6, 0.04, (214, 160, 92), 0.8)
    b.ridge(0.74, 0.03, (232, 186, 118), 1.0)
    for _ in range(6):
        x, y = b.rng.random(), b.rng.uniform(0.78, 0.98)
        b.line([(x, y), (x + 0.14, y + 0.008)], 0.006, (206, 156, 92))
    return {"air": (0.2, 0.45), "ground": (0.76, 0.97)}


def meadow(b: Backdrop) -> Zones:
    """Green hills and grass."""
    h = b.rng.uniform(0.42, 0.54)
    b.sky(0.7)
    b.ridge(h, 0.03, (134, 184, 110))
    b.ridge(h + 0.1, 0.03, (112, 176, 84))
    b.ridge(h + 0.2, 0.02, (96, 166, 70))
    for _ in range(40):
        x, y = b.rng.random(), b.rng.uniform(h + 0.24, 1)
        b.line([(x, y), (x + b.rng.uniform(-0.01, 0.01), y - 0.03)], 0.005, (66, 132, 52))
    return {"air": (0.2, h), "ground": (0.74, 0.97)}


def lake(b: Backdrop) -> Zones:
    """Calm water between far hills and a grassy bank."""
    h = b.rng.uniform(0.38, 0.46)
    b.sky(h)
    b.ridge(h - 0.06, 0.03, (96, 134, 122))
    b.fill(h, 0.84, (108, 164, 196), (58, 118, 160))
    for _ in range(10):
        x, y = b.rng.random(), b.rng.uniform(h + 0.02, 0.78)
        b.line([(x, y), (x + b.rng.uniform(0.04, 0.2), y)], 0.005, (150, 198, 220))
    b.ridge(0.83, 0.012, (104, 150, 74))
    for _ in range(16):
        x = b.rng.random()
        b.line([(x, 0.87), (x + b.rng.uniform(-0.01, 0.01), 0.79)], 0.006, (86, 126, 62))
    return {"air": (0.2, h - 0.04), "water": (h + 0.1, 0.76), "ground": (0.87, 0.97)}


def farm(b: Backdrop) -> Zones:
    """A ploughed field with furrows, a fence and bales of hay."""
    b.sky(0.5)
    b.ridge(0.42, 0.02, (150, 178, 100))
    b.fill(0.5, 1.0, (170, 124, 78), (132, 90, 56))
    for i in range(-11, 12):
        x1, x2 = 0.5 + i * 0.07, 0.5 + i * 0.3
        crop = b.rng.choice(((104, 140, 60), (122, 152, 66)))
        b.poly([(x1, 0.5), (x1 + 0.012, 0.5), (x2 + 0.06, 1.0), (x2 - 0.02, 1.0)], crop)
    for _ in range(b.rng.randint(1, 3)):
        b.oval(b.rng.random(), 0.53, 0.06, 0.045, (226, 190, 96))
    for y in (0.52, 0.57):
        b.rect(0, y, 1, y + 0.014, (214, 206, 190))
    for i in range(9):
        b.rect(i * 0.125, 0.49, i * 0.125 + 0.02, 0.62, (226, 218, 202))
    return {"air": (0.2, 0.42), "ground": (0.72, 0.97)}


def _window(b: Backdrop, x: float, y: float, w: float, h: float) -> None:
    b.rect(x - 0.012, y - 0.012, x + w + 0.012, y + h + 0.012, (246, 242, 234))
    b.daylight(x, y, w, h)
    b.rect(x + w / 2 - 0.006, y, x + w / 2 + 0.006, y + h, (246, 242, 234))


def living_room(b: Backdrop) -> Zones:
    """Striped wallpaper, a window, a picture, floorboards and a rug."""
    wall = b.rng.choice(((206, 186, 158), (176, 192, 196), (204, 176, 172), (188, 196, 164)))
    b.fill(0, 0.64, wall, wall)
    for i in range(10):
        b.rect(i * 0.1, 0, i * 0.1 + 0.04, 0.64, shade(wall, 1.12))
    x = b.rng.uniform(0.05, 0.2)
    _window(b, 0.74 - x, 0.1, 0.26, 0.28)
    b.rect(x, 0.14, x + 0.14, 0.3, (110, 78, 52))
    b.rect(x + 0.015, 0.155, x + 0.125, 0.285, b.rng.choice(((150, 180, 170), (200, 170, 140))))
    b.rect(0, 0.62, 1, 0.65, (240, 234, 222))
    b.fill(0.65, 1.0, (178, 128, 80), (150, 102, 62))
    for y in (0.7, 0.77, 0.86, 0.95):
        b.line([(0, y), (1, y)], 0.004, (128, 86, 52))
    rug = b.rng.choice(((156, 80, 84), (84, 108, 140), (120, 130, 96)))
    b.oval(b.rng.uniform(0.35, 0.65), 0.86, 0.4, 0.1, rug)
    return {"air": (0.28, 0.56), "ground": (0.74, 0.97)}


def kitchen(b: Backdrop) -> Zones:
    """Tiles, cupboards, a worktop and a chequered floor."""
    b.fill(0, 0.66, (226, 226, 218), (216, 218, 210))
    for i in range(1, 14):
        b.line([(i * 0.075, 0), (i * 0.075, 0.66)], 0.003, (196, 200, 194))
    for i in range(1, 9):
        b.line([(0, i * 0.075), (1, i * 0.075)], 0.003, (196, 200, 194))
    door = b.rng.choice(((126, 160, 150), (196, 160, 112), (150, 164, 190)))
    for i in range(4):
        if b.rng.random() < 0.7:
            b.rect(i * 0.25 + 0.01, 0, i * 0.25 + 0.24, 0.2, door)
        b.rect(i * 0.25 + 0.01, 0.5, i * 0.25 + 0.24, 0.7, shade(door, 0.9))
        b.rect(i * 0.25 + 0.2, 0.56, i * 0.25 + 0.215, 0.62, (240, 240, 236))
    b.rect(0, 0.46, 1, 0.5, (120, 96, 80))
    b.fill(0.7, 1.0, (232, 228, 216), (214, 210, 198))
    for row in range(4):
        y1, y2 = 0.7 + 0.3 * (row / 4) ** 1.3, 0.7 + 0.3 * ((row + 1) / 4) ** 1.3
        for i in range(-1, 6):
            if (i + row) % 2:
                x = i * 0.2
                b.rect(x, y1, x + 0.2, y2, (150, 156, 160))
    return {"air": (0.3, 0.5), "ground": (0.78, 0.97)}


def underwater(b: Backdrop) -> Zones:
    """Blue water with rays of light, bubbles, weeds and a floor of sand."""
    b.fill(0, 1.0, (72, 172, 204), (18, 70, 130))
    for _ in range(4):
        x, w = b.rng.random(), b.rng.uniform(0.04, 0.1)
        b.poly([(x, 0), (x + w, 0), (x + w * 2 - 0.2, 0.86), (x - 0.25, 0.86)], (84, 170, 204))
    b.ridge(0.88, 0.015, (196, 186, 140))
    for _ in range(b.rng.randint(4, 9)):
        x, y = b.rng.random(), b.rng.uniform(0.86, 0.94)
        sway = [(x + 0.012 * math.sin(i * 1.7), y - i * 0.035) for i in range(b.rng.randint(3, 8))]
        b.line(sway, 0.014, b.rng.choice(((40, 126, 92), (70, 120, 60))))
    for _ in range(12):
        r = b.rng.uniform(0.004, 0.01)
        b.oval(b.rng.random(), b.rng.random() * 0.8, r, r, (190, 228, 240))
    return {"water": (0.28, 0.84), "ground": (0.9, 0.98)}


def sky(b: Backdrop) -> Zones:
    """High above a bank of clouds."""
    b.sky(1.0)
    for _ in range(b.rng.randint(3, 6)):
        b.cloud(b.rng.random(), b.rng.uniform(0.1, 0.75), b.rng.uniform(0.05, 0.1))
    for _ in range(12):
        b.cloud(b.rng.random(), b.rng.uniform(0.92, 1.02), b.rng.uniform(0.08, 0.14))
    return {"air": (0.28, 0.92)}


BACKDROPS: dict[str, Callable[[Backdrop], Zones]] = {
    draw.__name__: draw
    for draw in (
        beach,
        forest,
        street,
        mountain,
        desert,
        meadow,
        lake,
        farm,
        living_room,
        kitchen,
        underwater,
        sky,
    )
}

INDOORS = frozenset({"living_room", "kitchen"})

NO_WEATHER = INDOORS | {"underwater", "sky"}

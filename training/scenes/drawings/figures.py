"""Drawings of people and human-like figures, from the front."""

from __future__ import annotations

from training.scenes.drawings.brush import INK, RGB, SKINS, Brush

HAIRS = ((52, 38, 32), (120, 72, 36), (226, 184, 96), (176, 74, 36), (60, 56, 60))


def _head(b: Brush, hair: RGB, skin: RGB) -> None:
    b.disc(0.5, 0.13, 0.105, skin)
    b.blob([(0.26, 0.13), (0.34, 0.02), (0.66, 0.02), (0.74, 0.13), (0.6, 0.08), (0.4, 0.08)], hair)
    for x in (0.42, 0.58):
        b.disc(x, 0.14, 0.012, INK)
    b.arc(0.5, 0.165, 0.08, 0.02, 20, 160, 0.01, (180, 70, 70))


def _arms(b: Brush, skin: RGB, left: float, right: float) -> None:
    """Arms from the shoulders to hands at the given heights."""
    for side, hand in ((-1, left), (1, right)):
        b.line([(0.5 + side * 0.2, 0.3), (0.5 + side * 0.4, (0.32 + hand) / 2)], 0.065)
        b.line([(0.5 + side * 0.4, (0.32 + hand) / 2), (0.5 + side * 0.44, hand)], 0.05, skin)


def man(b: Brush) -> None:
    """A man from the front in a shirt of his colour."""
    skin, hair = b.rng.choice(SKINS), b.rng.choice(HAIRS)
    trousers = b.rng.choice(((58, 64, 92), (84, 74, 62), (70, 72, 76)))
    for side in (-1, 1):
        b.line(
            [(0.5 + side * 0.12, 0.55), (0.5 + side * b.rng.uniform(0.12, 0.24), 0.93)],
            0.09,
            trousers,
        )
        b.oval(0.5 + side * 0.2, 0.965, 0.13, 0.03, INK)
    _arms(b, skin, b.rng.choice((0.56, 0.56, 0.12)), 0.56)
    b.rect(0.27, 0.235, 0.73, 0.6, b.colour, 0.05)
    b.line([(0.5, 0.26), (0.5, 0.58)], 0.01, b.dark)
    _head(b, hair, skin)


def woman(b: Brush) -> None:
    """A woman from the front in a dress of her colour, with long hair."""
    skin, hair = b.rng.choice(SKINS), b.rng.choice(HAIRS)
    b.blob([(0.26, 0.1), (0.5, 0.0), (0.74, 0.1), (0.8, 0.34), (0.5, 0.3), (0.2, 0.34)], hair)
    for side in (-1, 1):
        b.line([(0.5 + side * 0.12, 0.75), (0.5 + side * 0.13, 0.93)], 0.05, skin)
        b.oval(0.5 + side * 0.16, 0.965, 0.1, 0.028, b.dark)
    _arms(b, skin, 0.55, b.rng.choice((0.55, 0.55, 0.12)))
    b.poly([(0.32, 0.24), (0.68, 0.24), (0.64, 0.44), (0.9, 0.8), (0.1, 0.8), (0.36, 0.44)])
    b.line([(0.35, 0.44), (0.65, 0.44)], 0.03, b.dark)
    _head(b, hair, skin)


def snowman(b: Brush) -> None:
    """A snowman with a scarf of its colour, a carrot nose and a hat."""
    snow = (246, 248, 252)
    for side in (-1, 1):
        b.line(
            [(0.5 + side * 0.2, 0.5), (0.5 + side * 0.47, b.rng.uniform(0.3, 0.5))],
            0.02,
            (96, 66, 44),
        )
    b.oval(0.5, 0.8, 0.36, 0.19, snow)
    b.oval(0.5, 0.5, 0.27, 0.16, snow)
    b.oval(0.5, 0.26, 0.2, 0.13, snow)
    b.rect(0.26, 0.12, 0.74, 0.16, INK)
    b.rect(0.34, 0.01, 0.66, 0.14, INK)
    b.line([(0.32, 0.38), (0.68, 0.38)], 0.06)
    b.line([(0.62, 0.39), (0.66, 0.54)], 0.06)
    for x in (0.42, 0.58):
        b.disc(x, 0.23, 0.018, INK)
    b.poly([(0.48, 0.26), (0.72, 0.29), (0.48, 0.31)], (240, 130, 40))
    for y in (0.5, 0.58):
        b.disc(0.5, y, 0.016, INK)


def robot(b: Brush) -> None:
    """A robot from the front: square head, antenna, dials."""
    steel = (176, 182, 190)
    b.line([(0.5, 0.12), (0.5, 0.04)], 0.02, steel)
    b.disc(0.5, 0.035, 0.03, (230, 70, 60))
    for side in (-1, 1):
        b.line(
            [(0.5 + side * 0.3, 0.46), (0.5 + side * 0.43, b.rng.uniform(0.5, 0.7))], 0.07, steel
        )
        b.rect(0.5 + side * 0.18 - 0.09, 0.76, 0.5 + side * 0.18 + 0.09, 0.92, steel)
        b.rect(0.5 + side * 0.2 - 0.14, 0.9, 0.5 + side * 0.2 + 0.14, 0.99, b.dark)
    b.rect(0.2, 0.38, 0.8, 0.78, b.colour, 0.04)
    b.rect(0.26, 0.1, 0.74, 0.36, b.colour, 0.05)
    for x in (0.38, 0.62):
        b.disc(x, 0.2, 0.05, (252, 240, 150))
        b.disc(x, 0.2, 0.02, INK)
    b.rect(0.38, 0.28, 0.62, 0.32, (230, 230, 232))
    b.rect(0.32, 0.46, 0.68, 0.62, b.light)
    for x in (0.4, 0.5, 0.6):
        b.disc(x, 0.69, 0.022, (250, 220, 90))

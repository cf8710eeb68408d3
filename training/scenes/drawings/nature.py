"""Drawings of plants and of sun, moon and stars."""

from __future__ import annotations

import math

from training.scenes.drawings.brush import Brush

BARK = (112, 76, 48)

LEAF = (74, 146, 66)

PAPER = (250, 246, 234)


def tree(b: Brush) -> None:
    """A tree with a round crown of its colour."""
    b.poly([(0.42, 0.98), (0.46, 0.5), (0.54, 0.5), (0.6, 0.98)], BARK)
    for x, y, r in (
        (0.28, 0.42, 0.2),
        (0.72, 0.42, 0.2),
        (0.38, 0.24, 0.2),
        (0.64, 0.24, 0.19),
        (0.5, 0.36, 0.24),
    ):
        b.disc(x, y, b.about(r, 0.08), b.colour)
    for _ in range(4):
        b.disc(b.rng.uniform(0.3, 0.7), b.rng.uniform(0.18, 0.48), 0.05, b.light)


def pine(b: Brush) -> None:
    """A fir tree: three layers of branches."""
    b.rect(0.43, 0.8, 0.57, 0.98, BARK)
    for top, bottom, w in ((0.5, 0.86, 0.46), (0.26, 0.62, 0.36), (0.02, 0.38, 0.26)):
        b.poly([(0.5, top), (0.5 + w, bottom), (0.5, bottom - 0.05), (0.5 - w, bottom)])


def flower(b: Brush) -> None:
    """A flower with petals of its colour on a stem with leaves."""
    b.line([(0.5, 0.3), (b.about(0.5, 0.06), 0.97)], 0.05, LEAF)
    b.blob([(0.5, 0.82), (0.7, 0.6), (0.9, 0.6), (0.74, 0.78)], LEAF)
    b.blob([(0.5, 0.9), (0.3, 0.7), (0.1, 0.72), (0.26, 0.86)], LEAF)
    count = b.rng.choice((5, 6, 8))
    for i in range(count):
        a = i * math.tau / count
        b.disc(0.5 + 0.27 * math.cos(a), 0.27 + 0.16 * math.sin(a), 0.115)
    b.disc(
        0.5, 0.27, 0.095, (250, 206, 62) if b.colour[2] > 90 or b.colour[1] < 120 else (120, 74, 40)
    )


def mushroom(b: Brush) -> None:
    """A toadstool with a spotted cap."""
    b.blob([(0.38, 0.5), (0.62, 0.5), (0.66, 0.95), (0.5, 0.99), (0.34, 0.95)], PAPER)
    b.blob([(0.02, 0.56), (0.12, 0.2), (0.5, 0.03), (0.88, 0.2), (0.98, 0.56), (0.5, 0.62)])
    spot = PAPER if sum(b.colour) < 640 else (150, 120, 96)
    for x, y, r in ((0.3, 0.3, 0.07), (0.55, 0.18, 0.06), (0.72, 0.38, 0.07), (0.48, 0.44, 0.06)):
        b.disc(x, y, b.about(r), spot)


def cactus(b: Brush) -> None:
    """A cactus with two raised arms."""
    for side, y in ((-1, b.rng.uniform(0.3, 0.5)), (1, b.rng.uniform(0.25, 0.45))):
        x = 0.5 + side * 0.36
        b.line([(0.5, y + 0.2), (x, y + 0.2)], 0.12, b.dark)
        b.line([(x, y + 0.2), (x, y)], 0.12, b.dark)
    b.rect(0.37, 0.03, 0.63, 0.98, b.colour, 0.1)
    for x in (0.45, 0.55):
        b.line([(x, 0.1), (x, 0.94)], 0.008, b.dark)
    if b.rng.random() < 0.5:
        b.disc(0.5, 0.05, 0.05, (240, 120, 170))


def sun(b: Brush) -> None:
    """A sun with rays."""
    turn = b.rng.uniform(0, 0.5)
    for i in range(10):
        a = turn + i * math.tau / 10
        c, s = math.cos(a), math.sin(a)
        b.poly(
            [
                (0.5 + 0.3 * c - 0.06 * s, 0.5 + 0.3 * s + 0.06 * c),
                (0.5 + 0.49 * c, 0.5 + 0.49 * s),
                (0.5 + 0.3 * c + 0.06 * s, 0.5 + 0.3 * s - 0.06 * c),
            ]
        )
    b.disc(0.5, 0.5, 0.31)


def moon(b: Brush) -> None:
    """A crescent moon."""
    outer = [
        (0.5 + 0.48 * math.cos(a), 0.5 + 0.48 * math.sin(a))
        for a in (0.9 + i * (math.tau - 1.8) / 24 for i in range(25))
    ]
    bulge = b.rng.uniform(0.26, 0.34)
    inner = [
        (0.8 - bulge * math.sin(t), 0.5 - 0.376 * math.cos(t))
        for t in (i * math.pi / 16 for i in range(17))
    ]
    b.poly(outer + inner)


def star(b: Brush) -> None:
    """A five-pointed star."""
    turn = b.rng.uniform(-0.2, 0.2) - math.pi / 2
    radii = [(0.49 if i % 2 == 0 else 0.21, turn + i * math.pi / 5) for i in range(10)]
    b.poly([(0.5 + r * math.cos(a), 0.52 + r * math.sin(a)) for r, a in radii])

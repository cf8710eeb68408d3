"""Drawings of vehicles and buildings, facing right."""

from __future__ import annotations

import math

from training.scenes.drawings.brush import INK, Brush, shade

GLASS = (176, 216, 236)
STEEL = (196, 200, 206)
LAMP = (255, 238, 150)
WOOD = (150, 104, 62)


def _wheels(b: Brush, xs: tuple[float, ...], y: float, r: float) -> None:
    for x in xs:
        b.disc(x, y, r, INK)
        b.disc(x, y, r * 0.5, STEEL)


def car(b: Brush) -> None:
    """A car from the side: cabin with two windows."""
    back = b.rng.uniform(0.14, 0.26)
    b.poly([(back, 0.5), (back + 0.1, 0.1), (0.62, 0.1), (0.78, 0.5)])
    b.poly([(back + 0.06, 0.48), (back + 0.13, 0.18), (0.44, 0.18), (0.44, 0.48)], GLASS)
    b.poly([(0.48, 0.48), (0.48, 0.18), (0.6, 0.18), (0.71, 0.48)], GLASS)
    b.rect(0.01, 0.46, 0.99, 0.82, b.colour, 0.14)
    b.line([(0.46, 0.5), (0.46, 0.78)], 0.02, b.dark)
    b.rect(0.93, 0.54, 0.985, 0.64, LAMP)
    b.rect(0.015, 0.54, 0.05, 0.64, (220, 60, 50))
    _wheels(b, (0.23, 0.77), 0.81, 0.18)


def bus(b: Brush) -> None:
    """A bus from the side: a long row of windows."""
    b.rect(0.01, 0.06, 0.99, 0.86, b.colour, 0.1)
    for i in range(5):
        b.rect(0.06 + i * 0.155, 0.17, 0.19 + i * 0.155, 0.46, GLASS)
    b.rect(0.84, 0.17, 0.97, 0.8, GLASS)
    b.rect(0.01, 0.55, 0.83, 0.62, b.light)
    b.rect(0.95, 0.7, 0.99, 0.78, LAMP)
    _wheels(b, (0.22, 0.73), 0.85, 0.14)


def truck(b: Brush) -> None:
    """A truck from the side: a pale box behind a coloured cab."""
    b.rect(0.04, 0.72, 0.97, 0.82, shade(b.colour, 0.5))
    b.rect(0.01, 0.06, 0.64, 0.74, (232, 228, 218))
    b.rect(0.06, 0.3, 0.59, 0.46)
    b.poly([(0.66, 0.2), (0.85, 0.2), (0.97, 0.5), (0.99, 0.78), (0.66, 0.78)])
    b.poly([(0.72, 0.27), (0.83, 0.27), (0.91, 0.48), (0.72, 0.48)], GLASS)
    b.rect(0.94, 0.6, 0.985, 0.68, LAMP)
    _wheels(b, (0.16, 0.32, 0.8), 0.84, 0.14)


def tractor(b: Brush) -> None:
    """A tractor from the side: one big wheel, one small."""
    b.rect(0.14, 0.04, 0.54, 0.12, b.dark)
    b.rect(0.18, 0.1, 0.5, 0.5, GLASS)
    b.line([(0.78, 0.1), (0.78, 0.4)], 0.05, INK)
    b.rect(0.14, 0.46, 0.58, 0.76, b.colour, 0.04)
    b.rect(0.5, 0.38, 0.97, 0.74, b.colour, 0.06)
    b.rect(0.9, 0.44, 0.965, 0.54, LAMP)
    for x, y, r in ((0.27, 0.7, 0.28), (0.82, 0.8, 0.18)):
        b.disc(x, y, r, INK)
        b.disc(x, y, r * 0.55, (238, 200, 70))


def bicycle(b: Brush) -> None:
    """A bicycle from the side: two wheels and a coloured frame."""
    for x in (0.235, 0.765):
        b.ring(x, 0.66, 0.33, 0.045, INK)
        for i in range(4):
            a = i * math.pi / 4 + b.rng.uniform(0, 0.3)
            dx, dy = 0.2 * math.cos(a), 0.3 * math.sin(a)
            b.line([(x - dx, 0.66 - dy), (x + dx, 0.66 + dy)], 0.01, (150, 152, 156))
    frame = [(0.235, 0.66), (0.46, 0.68), (0.7, 0.3), (0.37, 0.32), (0.46, 0.68)]
    b.line(frame, 0.055)
    b.line([(0.235, 0.66), (0.37, 0.32), (0.34, 0.2)], 0.055)
    b.line([(0.765, 0.66), (0.68, 0.16), (0.77, 0.1)], 0.055)
    b.line([(0.27, 0.18), (0.41, 0.18)], 0.075, INK)
    b.disc(0.46, 0.68, 0.07, b.dark)


def boat(b: Brush) -> None:
    """A sailing boat: hull and sails of its colour."""
    b.line([(0.48, 0.02), (0.48, 0.76)], 0.025, WOOD)
    b.poly([(0.45, 0.06), (0.45, 0.66), (0.08, 0.66)], b.light)
    b.poly([(0.52, 0.12), (0.52, 0.66), (b.about(0.84, 0.08), 0.66)])
    b.poly([(0.02, 0.72), (0.98, 0.72), (0.82, 0.97), (0.18, 0.97)])
    b.line([(0.1, 0.8), (0.9, 0.8)], 0.03, (248, 246, 238))


def aeroplane(b: Brush) -> None:
    """An aeroplane from the side: wings, tail fin, round windows."""
    b.poly([(0.02, 0.08), (0.14, 0.08), (0.26, 0.42), (0.1, 0.46)], b.dark)
    b.poly([(0.5, 0.44), (0.36, 0.1), (0.46, 0.1), (0.66, 0.42)], b.dark)
    b.blob(
        [
            (0.02, 0.4),
            (0.3, 0.38),
            (0.72, 0.36),
            (0.98, 0.52),
            (0.76, 0.66),
            (0.3, 0.64),
            (0.08, 0.52),
        ]
    )
    b.poly([(0.8, 0.4), (0.92, 0.46), (0.84, 0.5), (0.78, 0.48)], GLASS)
    for i in range(5):
        b.disc(0.3 + i * 0.09, 0.47, 0.035, GLASS)
    b.poly([(0.42, 0.55), (0.66, 0.55), (0.36, 0.94), (0.26, 0.92)], b.light)


def balloon(b: Brush) -> None:
    """A hot-air balloon: a striped envelope over a basket."""
    for x in (0.42, 0.58):
        b.line([(x + (x - 0.5) * 1.2, 0.64), (x, 0.86)], 0.012, WOOD)
    b.rect(0.39, 0.84, 0.61, 0.98, WOOD)
    b.blob(
        [
            (0.5, 0.01),
            (0.82, 0.1),
            (0.97, 0.34),
            (0.8, 0.58),
            (0.6, 0.74),
            (0.4, 0.74),
            (0.2, 0.58),
            (0.03, 0.34),
            (0.18, 0.1),
        ]
    )
    stripe = b.light if sum(b.colour) < 600 else b.dark
    for x in (0.27, 0.73):
        b.blob(
            [
                (0.5 + (x - 0.5) * 0.3, 0.03),
                (x, 0.34),
                (0.5 + (x - 0.5) * 0.4, 0.72),
                (0.5 + (x - 0.5) * 0.9, 0.5),
                (x + (x - 0.5) * 0.5, 0.3),
            ],
            stripe,
        )


def rocket(b: Brush) -> None:
    """A rocket standing upright: pointed nose, fins, a flame."""
    b.blob([(0.36, 0.8), (0.5, 0.84), (0.64, 0.8), (0.5, b.about(0.95, 0.04))], (252, 180, 50))
    for side in (-1, 1):
        b.poly(
            [(0.5 + side * 0.2, 0.5), (0.5 + side * 0.46, 0.84), (0.5 + side * 0.2, 0.78)], b.dark
        )
    b.blob(
        [(0.5, 0.01), (0.7, 0.2), (0.74, 0.5), (0.66, 0.82), (0.34, 0.82), (0.26, 0.5), (0.3, 0.2)],
        (236, 236, 238),
    )
    b.poly([(0.5, 0.005), (0.68, 0.18), (0.7, 0.24), (0.3, 0.24), (0.32, 0.18)])
    b.rect(0.29, 0.62, 0.71, 0.72)
    b.disc(0.5, 0.4, 0.07, GLASS)


def house(b: Brush) -> None:
    """A house with walls of its colour, a roof, a door and windows."""
    roof = b.rng.choice(((158, 70, 54), (96, 78, 76), (70, 80, 104)))
    if b.rng.random() < 0.6:
        b.rect(0.7, 0.06, 0.82, 0.34, (140, 92, 80))
    b.rect(0.1, 0.4, 0.9, 0.98)
    b.poly([(0.5, 0.03), (0.99, 0.43), (0.01, 0.43)], roof)
    b.rect(0.43, 0.62, 0.6, 0.98, WOOD)
    b.disc(0.57, 0.8, 0.016, LAMP)
    for x in (0.18, 0.68):
        b.rect(x, 0.54, x + 0.16, 0.74, GLASS)
        b.line([(x + 0.08, 0.55), (x + 0.08, 0.73)], 0.012, (250, 250, 248))
        b.line([(x + 0.01, 0.64), (x + 0.15, 0.64)], 0.012, (250, 250, 248))
    b.disc(0.5, 0.28, 0.06, GLASS)


def lighthouse(b: Brush) -> None:
    """A lighthouse with stripes of its colour and a lamp."""
    b.poly([(0.5, 0.0), (0.72, 0.1), (0.28, 0.1)], b.dark)
    b.rect(0.33, 0.1, 0.67, 0.21, LAMP)
    b.rect(0.24, 0.2, 0.76, 0.25, INK)
    pale = (248, 246, 240) if sum(b.colour) < 660 else (150, 150, 156)
    for i in range(5):
        y = 0.25 + i * 0.145
        w, v = 0.2 + i * 0.035, 0.2 + (i + 1) * 0.035
        b.poly(
            [(0.5 - w, y), (0.5 + w, y), (0.5 + v, y + 0.145), (0.5 - v, y + 0.145)],
            pale if i % 2 else b.colour,
        )
    b.rect(0.42, 0.86, 0.58, 0.98, WOOD)


def windmill(b: Brush) -> None:
    """A windmill: a tapering tower and four turning sails."""
    b.poly([(0.36, 0.36), (0.64, 0.36), (0.76, 0.98), (0.24, 0.98)])
    b.poly([(0.34, 0.36), (0.5, 0.2), (0.66, 0.36)], b.dark)
    b.rect(0.43, 0.8, 0.57, 0.98, WOOD)
    b.rect(0.44, 0.54, 0.56, 0.64, GLASS)
    turn = b.rng.uniform(0.3, 1.2)
    for i in range(4):
        a = turn + i * math.pi / 2
        x, y = math.cos(a), math.sin(a) * 0.72
        ex, ey = 0.5 + 0.46 * x, 0.345 + 0.46 * y
        b.poly(
            [
                (0.5, 0.345),
                (ex, ey),
                (ex - 0.1 * y, ey + 0.08 * x),
                (0.5 + 0.08 * x, 0.345 + 0.1 * y),
            ],
            (246, 240, 224),
        )
    b.disc(0.5, 0.345, 0.03, INK)

"""Drawings of furniture, toys and small objects."""

from __future__ import annotations

import math

from training.scenes.drawings.brush import INK, Brush, shade

BARK = (112, 76, 48)

PAPER = (250, 246, 234)


def ball(b: Brush) -> None:
    """A ball with curved stripes and a highlight."""
    b.disc(0.5, 0.5, 0.48)
    stripe = PAPER if sum(b.colour) < 640 else (170, 172, 178)
    tilt = b.rng.uniform(-0.12, 0.12)
    b.blob([(0.3, 0.1), (0.42 + tilt, 0.5), (0.3, 0.9), (0.18 + tilt, 0.5)], stripe)
    b.blob([(0.7, 0.1), (0.82 + tilt, 0.5), (0.7, 0.9), (0.58 + tilt, 0.5)], stripe)
    b.oval(0.42, 0.24, 0.08, 0.05, b.light)


def kite(b: Brush) -> None:
    """A diamond kite with a tail of bows."""
    b.line([(0.5, 0.62), (0.4, 0.74), (0.58, 0.86), (0.46, 0.98)], 0.014, INK)
    for x, y in ((0.42, 0.74), (0.56, 0.86)):
        b.poly(
            [(x - 0.1, y - 0.04), (x + 0.1, y + 0.04), (x + 0.1, y - 0.04), (x - 0.1, y + 0.04)],
            b.dark,
        )
    b.poly([(0.5, 0.01), (0.94, 0.26), (0.5, 0.66), (0.06, 0.26)])
    b.poly([(0.5, 0.01), (0.94, 0.26), (0.5, 0.26)], b.light)
    b.poly([(0.06, 0.26), (0.5, 0.26), (0.5, 0.66)], b.dark)


def umbrella(b: Brush) -> None:
    """An open umbrella with a curved handle."""
    b.line([(0.5, 0.1), (0.5, 0.88)], 0.03, BARK)
    b.arc(0.57, 0.88, 0.07, 0.08, 0, 180, 0.03, BARK)
    dome = [
        (0.5 - 0.49 * math.cos(t), 0.48 - 0.44 * math.sin(t))
        for t in (i * math.pi / 12 for i in range(13))
    ]
    b.poly([*dome, (0.83, 0.42), (0.66, 0.48), (0.5, 0.42), (0.34, 0.48), (0.17, 0.42)])
    b.poly([(0.5, 0.04), (0.66, 0.47), (0.5, 0.42), (0.34, 0.47)], b.light)
    b.line([(0.5, 0.01), (0.5, 0.06)], 0.02, INK)


def chair(b: Brush) -> None:
    """A wooden chair from the side and front."""
    for x in (0.3, 0.9):
        b.line([(x, 0.55), (x, 0.93)], 0.05, b.dark)
    b.rect(0.12, 0.02, 0.24, 0.96)
    b.rect(0.14, 0.06, 0.84, 0.4, b.light)
    b.rect(0.78, 0.02, 0.88, 0.58)
    b.rect(0.08, 0.52, 0.94, 0.63)
    b.rect(0.76, 0.6, 0.88, 0.98)


def table(b: Brush) -> None:
    """A table with four legs."""
    for x in (0.2, 0.8):
        b.line([(x, 0.2), (x, 0.84)], 0.07, b.dark)
    for x in (0.05, 0.88):
        b.rect(x, 0.15, x + 0.07, 0.99)
    b.rect(0.0, 0.03, 1.0, 0.2, b.colour, 0.05)


def bench(b: Brush) -> None:
    """A park bench with slats."""
    for x in (0.12, 0.82):
        b.rect(x, 0.05, x + 0.05, 0.97, (84, 84, 90))
    for y in (0.08, 0.27):
        b.rect(0.02, y, 0.98, y + 0.13)
    b.rect(0.0, 0.52, 1.0, 0.66)


def sofa(b: Brush) -> None:
    """A sofa with cushions and arms."""
    for x in (0.1, 0.84):
        b.rect(x, 0.86, x + 0.06, 0.99, BARK)
    b.rect(0.08, 0.06, 0.92, 0.7, b.dark, 0.12)
    for x in (0.15, 0.5):
        b.rect(x, 0.5, x + 0.35, 0.74, b.light, 0.06)
    b.rect(0.08, 0.7, 0.92, 0.9)
    for x in (0.0, 0.86):
        b.rect(x, 0.36, x + 0.14, 0.9, b.colour, 0.08)


def lamp(b: Brush) -> None:
    """A table lamp with a shade of its colour."""
    b.rect(0.46, 0.42, 0.54, 0.9, (188, 152, 84))
    b.oval(0.5, 0.93, 0.26, 0.05, (188, 152, 84))
    b.oval(0.5, 0.48, 0.14, 0.07, (255, 244, 170))
    b.poly([(0.3, 0.03), (0.7, 0.03), (0.97, 0.48), (0.03, 0.48)])


def cup(b: Brush) -> None:
    """A cup with a handle and steam."""
    for x in (0.32, 0.52):
        b.line(
            [(x, 0.26), (x + 0.05, 0.16), (x - 0.02, 0.1), (x + 0.02, 0.02)], 0.025, (226, 226, 230)
        )
    b.ring(0.76, 0.62, 0.19, 0.08, b.dark)
    b.poly([(0.08, 0.36), (0.76, 0.36), (0.68, 0.97), (0.16, 0.97)])
    b.oval(0.42, 0.37, 0.34, 0.06, (98, 62, 40))
    b.rect(0.18, 0.6, 0.67, 0.68, b.light)


def teapot(b: Brush) -> None:
    """A teapot with a spout, a handle and a lid."""
    b.ring(0.16, 0.58, 0.2, 0.07, b.dark)
    b.poly([(0.7, 0.72), (0.92, 0.3), (1.0, 0.34), (0.8, 0.86)], b.dark)
    b.oval(0.5, 0.64, 0.33, 0.33)
    b.oval(0.5, 0.33, 0.18, 0.07, b.dark)
    b.disc(0.5, 0.22, 0.08)
    b.disc(0.46, 0.62, 0.1, b.light)


def book(b: Brush) -> None:
    """A closed book standing with its cover to the front."""
    b.poly([(0.1, 0.1), (0.2, 0.01), (0.98, 0.01), (0.98, 0.86), (0.88, 0.97)], PAPER)
    b.rect(0.02, 0.1, 0.88, 0.98)
    b.rect(0.02, 0.1, 0.14, 0.98, b.dark)
    b.rect(0.28, 0.26, 0.76, 0.42, PAPER)
    b.line([(0.34, 0.34), (0.7, 0.34)], 0.025, INK)
    b.disc(0.52, 0.66, 0.1, b.light)


def clock(b: Brush) -> None:
    """A round clock with a rim of its colour."""
    b.disc(0.5, 0.5, 0.49)
    b.disc(0.5, 0.5, 0.38, PAPER)
    for i in range(12):
        a = i * math.tau / 12
        b.disc(0.5 + 0.32 * math.cos(a), 0.5 + 0.32 * math.sin(a), 0.022, INK)
    for length, width in ((0.18, 0.05), (0.28, 0.035)):
        a = b.rng.uniform(0, math.tau)
        b.line([(0.5, 0.5), (0.5 + length * math.cos(a), 0.5 + length * math.sin(a))], width, INK)


def key(b: Brush) -> None:
    """A key with a round bow and two teeth."""
    b.line([(0.38, 0.5), (0.96, 0.5)], 0.17)
    for x in (0.78, 0.93):
        b.rect(x - 0.05, 0.5, x + 0.04, 0.94)
    b.disc(0.23, 0.5, 0.48)
    b.disc(0.2, 0.5, 0.2, shade(b.colour, 0.4))


def guitar(b: Brush) -> None:
    """An upright guitar."""
    b.rect(0.42, 0.04, 0.58, 0.52, (92, 60, 40))
    b.rect(0.36, 0.0, 0.64, 0.1, (66, 44, 34))
    b.blob(
        [
            (0.5, 0.42),
            (0.8, 0.48),
            (0.74, 0.62),
            (0.97, 0.8),
            (0.74, 0.98),
            (0.26, 0.98),
            (0.03, 0.8),
            (0.26, 0.62),
            (0.2, 0.48),
        ]
    )
    b.disc(0.5, 0.68, 0.075, INK)
    b.rect(0.32, 0.84, 0.68, 0.88, INK)
    for x in (0.46, 0.54):
        b.line([(x, 0.06), (x, 0.85)], 0.005, (226, 220, 200))


def hat(b: Brush) -> None:
    """A hat with a brim and a band."""
    b.oval(0.5, 0.8, 0.5, 0.17)
    b.blob([(0.22, 0.8), (0.24, 0.3), (0.36, 0.06), (0.64, 0.06), (0.76, 0.3), (0.78, 0.8)])
    b.poly(
        [(0.225, 0.58), (0.775, 0.58), (0.78, 0.78), (0.22, 0.78)],
        b.dark if sum(b.colour) > 200 else (190, 60, 60),
    )


def tent(b: Brush) -> None:
    """A ridge tent with an open door."""
    b.poly([(0.3, 0.06), (0.76, 0.14), (0.99, 0.95), (0.62, 0.97)], b.dark)
    b.poly([(0.3, 0.06), (0.64, 0.98), (0.01, 0.98)])
    b.poly([(0.3, 0.3), (0.42, 0.98), (0.22, 0.98)], shade(b.colour, 0.35))


def gift(b: Brush) -> None:
    """A wrapped present with a bow."""
    ribbon = (252, 244, 214) if sum(b.colour) < 600 else (206, 52, 60)
    for side in (-1, 1):
        b.blob([(0.5, 0.26), (0.5 + side * 0.3, 0.02), (0.5 + side * 0.34, 0.22)], ribbon)
    b.rect(0.08, 0.42, 0.92, 0.98)
    b.rect(0.02, 0.24, 0.98, 0.44)
    b.rect(0.43, 0.24, 0.57, 0.98, ribbon)


def bucket(b: Brush) -> None:
    """A bucket with a bent handle."""
    b.arc(0.5, 0.34, 0.38, 0.3, 180, 360, 0.03, (120, 122, 128))
    b.poly([(0.06, 0.32), (0.94, 0.32), (0.8, 0.97), (0.2, 0.97)])
    b.oval(0.5, 0.33, 0.44, 0.08, b.dark)
    b.poly([(0.11, 0.52), (0.89, 0.52), (0.86, 0.64), (0.14, 0.64)], b.light)


def candle(b: Brush) -> None:
    """A burning candle in a holder."""
    b.blob([(0.5, 0.01), (0.64, 0.16), (0.5, 0.28), (0.36, 0.16)], (255, 190, 60))
    b.oval(0.5, 0.18, 0.07, 0.06, (255, 244, 190))
    b.rect(0.3, 0.28, 0.7, 0.92)
    b.blob([(0.3, 0.3), (0.5, 0.28), (0.7, 0.3), (0.62, 0.46), (0.5, 0.36), (0.36, 0.42)], b.light)
    b.oval(0.5, 0.93, 0.46, 0.055, (176, 140, 72))

"""Drawings of four-legged animals, facing right."""

from __future__ import annotations

import math

from training.scenes.drawings.brush import INK, Brush, shade

PINK_NOSE = (236, 140, 150)


def _legs(b: Brush, xs: tuple[float, ...], top: float, width: float) -> None:
    """Straight legs down to the ground, every second one in the shade."""
    for i, x in enumerate(xs):
        step = b.rng.uniform(-0.03, 0.03)
        b.line([(x, top), (x + step, 0.97)], width, b.dark if i % 2 else b.colour)


def dog(b: Brush) -> None:
    """A dog from the side: snout, hanging ear, raised tail, collar."""
    tail = b.rng.uniform(0.08, 0.3)
    b.line([(0.16, 0.5), (0.08, 0.4), (0.05, tail)], 0.07)
    _legs(b, (0.3, 0.22, 0.68, 0.6), 0.6, 0.1)
    b.blob(
        [(0.14, 0.5), (0.3, 0.4), (0.6, 0.42), (0.74, 0.5), (0.66, 0.72), (0.4, 0.7), (0.2, 0.7)]
    )
    b.blob([(0.6, 0.5), (0.62, 0.24), (0.74, 0.12), (0.84, 0.22), (0.78, 0.56)])
    b.blob([(0.66, 0.16), (0.78, 0.08), (0.88, 0.2), (0.99, 0.26), (0.97, 0.38), (0.78, 0.42)])
    b.blob([(0.66, 0.12), (0.73, 0.14), (0.74, 0.34), (0.68, 0.44), (0.62, 0.32)], b.dark)
    b.disc(0.975, 0.27, 0.04, INK)
    b.eye(0.82, 0.2, 0.035)
    b.line([(0.62, 0.5), (0.76, 0.48)], 0.05, (206, 54, 54) if b.rng.random() < 0.5 else INK)


def cat(b: Brush) -> None:
    """A sitting cat from the front: pointed ears, whiskers, curled tail."""
    b.arc(0.78, 0.78, 0.18, 0.2, -100, 90, 0.07, b.dark)
    b.blob([(0.5, 0.34), (0.72, 0.55), (0.8, 0.9), (0.5, 0.98), (0.2, 0.9), (0.28, 0.55)])
    b.oval(0.5, 0.72, 0.14, 0.2, b.light)
    for x in (0.38, 0.62):
        b.oval(x, 0.94, 0.1, 0.05, b.light)
    for side in (-1, 1):
        b.poly([(0.5 + side * 0.32, 0.02), (0.5 + side * 0.08, 0.14), (0.5 + side * 0.33, 0.26)])
        b.poly(
            [(0.5 + side * 0.28, 0.08), (0.5 + side * 0.16, 0.15), (0.5 + side * 0.28, 0.22)],
            PINK_NOSE,
        )
    b.oval(0.5, 0.28, b.about(0.35, 0.06), 0.19)
    for side in (-1, 1):
        b.oval(0.5 + side * 0.15, 0.26, 0.065, 0.045, (150, 210, 80))
        b.oval(0.5 + side * 0.15, 0.26, 0.02, 0.04, INK)
        for y in (0.32, 0.36):
            b.line([(0.5 + side * 0.14, 0.34), (0.5 + side * 0.46, y)], 0.008, shade(b.dark, 0.7))
    b.poly([(0.45, 0.32), (0.55, 0.32), (0.5, 0.36)], PINK_NOSE)


def horse(b: Brush) -> None:
    """A horse from the side: long neck and legs, mane and flowing tail."""
    hair = shade(b.colour, 0.45)
    b.blob([(0.12, 0.4), (0.02, 0.5), (0.04, 0.76), (0.1, 0.7), (0.17, 0.48)], hair)
    _legs(b, (0.26, 0.18, 0.66, 0.58), 0.55, 0.07)
    b.blob(
        [
            (0.1, 0.44),
            (0.3, 0.36),
            (0.6, 0.36),
            (0.72, 0.44),
            (0.66, 0.62),
            (0.4, 0.62),
            (0.16, 0.6),
        ]
    )
    b.blob([(0.54, 0.42), (0.68, 0.12), (0.78, 0.06), (0.84, 0.16), (0.74, 0.5)])
    b.blob([(0.74, 0.06), (0.82, 0.06), (0.99, 0.24), (0.96, 0.32), (0.88, 0.32), (0.76, 0.2)])
    b.blob([(0.55, 0.36), (0.62, 0.14), (0.74, 0.02), (0.76, 0.1), (0.68, 0.3)], hair)
    b.poly([(0.75, 0.08), (0.77, 0.0), (0.81, 0.07)])
    b.eye(0.83, 0.14, 0.024)
    for x in (0.19, 0.26, 0.59, 0.66):
        b.rect(x - 0.035, 0.94, x + 0.035, 0.99, hair)


def cow(b: Brush) -> None:
    """A cow from the side: patches of its colour, horns, pink muzzle."""
    body = (246, 242, 234) if b.rng.random() < 0.5 else b.light
    b.line([(0.08, 0.34), (0.03, 0.5), (0.04, 0.66)], 0.035, b.dark)
    for i, x in enumerate((0.22, 0.14, 0.64, 0.56)):
        b.line([(x, 0.6), (x, 0.96)], 0.1, shade(body, 0.8) if i % 2 else body)
    b.oval(0.3, 0.72, 0.06, 0.07, PINK_NOSE)
    b.rect(0.06, 0.28, 0.72, 0.72, body, 0.16)
    for x, y, rx, ry in ((0.2, 0.42, 0.1, 0.12), (0.46, 0.5, 0.12, 0.16), (0.64, 0.36, 0.06, 0.07)):
        b.blob([(x - rx, y), (x, b.about(y - ry)), (x + rx, y), (x, b.about(y + ry))], b.colour)
    b.line([(0.74, 0.18), (0.71, 0.06)], 0.05, (236, 222, 180))
    b.line([(0.9, 0.18), (0.93, 0.06)], 0.05, (236, 222, 180))
    b.oval(0.68, 0.25, 0.06, 0.06, b.dark)
    b.oval(0.95, 0.25, 0.045, 0.06, b.dark)
    b.rect(0.71, 0.15, 0.92, 0.52, b.colour, 0.1)
    b.oval(0.815, 0.46, 0.115, 0.1, PINK_NOSE)
    b.eye(0.77, 0.28, 0.04)
    b.eye(0.86, 0.28, 0.04)


def sheep(b: Brush) -> None:
    """A sheep from the side: a cloud of wool on thin dark legs."""
    face = (58, 50, 52) if sum(b.colour) > 300 else (214, 190, 170)
    for x in (0.26, 0.36, 0.58, 0.68):
        b.line([(x, 0.65), (x, 0.97)], 0.07, face)
    for i in range(11):
        a = i * math.tau / 11 + b.rng.uniform(-0.1, 0.1)
        b.disc(0.45 + 0.28 * math.cos(a), 0.48 + 0.22 * math.sin(a), 0.15)
    b.oval(0.45, 0.48, 0.3, 0.26)
    b.oval(0.74, 0.28, 0.08, 0.05, face)
    b.blob([(0.76, 0.22), (0.88, 0.2), (0.97, 0.42), (0.9, 0.52), (0.78, 0.42)], face)
    b.disc(0.8, 0.2, 0.09)
    b.eye(0.87, 0.32, 0.035)


def rabbit(b: Brush) -> None:
    """A sitting rabbit from the front: two long ears."""
    for side in (-1, 1):
        tilt = b.rng.uniform(0.02, 0.14)
        x = 0.5 + side * 0.15
        b.blob(
            [
                (x - 0.1, 0.32),
                (x - 0.1 + side * tilt, 0.04),
                (x + 0.1 + side * tilt, 0.04),
                (x + 0.1, 0.32),
            ]
        )
        b.line([(x, 0.26), (x + side * tilt, 0.08)], 0.04, PINK_NOSE)
    b.disc(0.86, 0.84, 0.08, b.light)
    b.oval(0.5, 0.76, 0.36, 0.22)
    b.oval(0.5, 0.78, 0.2, 0.15, b.light)
    b.oval(0.5, 0.4, 0.3, 0.17)
    for side in (-1, 1):
        b.oval(0.5 + side * 0.2, 0.95, 0.15, 0.045, b.light)
        b.eye(0.5 + side * 0.13, 0.38, 0.028)
    b.oval(0.5, 0.43, 0.05, 0.022, PINK_NOSE)
    b.rect(0.46, 0.46, 0.54, 0.51, (252, 252, 250))


def elephant(b: Brush) -> None:
    """An elephant from the side: trunk, big ear, tusk."""
    b.line([(0.07, 0.4), (0.02, 0.62)], 0.03, b.dark)
    for i, x in enumerate((0.26, 0.16, 0.6, 0.5)):
        b.line([(x, 0.6), (x, 0.93)], 0.15, b.dark if i % 2 else b.colour)
    b.blob([(0.04, 0.42), (0.22, 0.18), (0.52, 0.16), (0.68, 0.4), (0.6, 0.72), (0.14, 0.72)])
    b.blob(
        [(0.84, 0.3), (0.95, 0.5), (0.94, 0.8), (0.99, 0.88), (0.9, 0.92), (0.85, 0.78), (0.8, 0.5)]
    )
    b.oval(0.74, 0.34, 0.17, 0.26)
    b.line([(0.82, 0.55), (0.9, 0.64)], 0.05, (250, 244, 224))
    b.blob([(0.68, 0.14), (0.52, 0.16), (0.46, 0.38), (0.56, 0.56), (0.68, 0.46)], b.dark)
    b.eye(0.8, 0.28, 0.032)

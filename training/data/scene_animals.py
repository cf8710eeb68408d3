"""Drawings of animals, people and other figures, facing right."""

from __future__ import annotations

import math

from training.data.scene_brush import INK, SKINS, Brush, shade

PINK_NOSE = (236, 140, 150)
BEAK = (244, 160, 40)


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


def bird(b: Brush) -> None:
    """A flying bird: spread wing, fan tail, beak."""
    up = b.rng.uniform(0.02, 0.12)
    b.poly([(0.24, 0.55), (0.0, 0.5), (0.02, 0.62), (0.06, 0.72), (0.26, 0.66)], b.dark)
    b.blob([(0.46, 0.5), (0.5, up), (0.62, up + 0.04), (0.66, 0.5)], b.dark)
    b.blob([(0.18, 0.6), (0.4, 0.46), (0.68, 0.44), (0.82, 0.56), (0.62, 0.78), (0.36, 0.76)])
    b.oval(0.56, 0.68, 0.16, 0.08, b.light)
    b.disc(0.78, 0.48, 0.15)
    b.poly([(0.88, 0.42), (1.0, 0.5), (0.87, 0.56)], BEAK)
    b.blob([(0.32, 0.56), (0.22, up + 0.06), (0.36, up), (0.56, 0.54), (0.46, 0.66)], b.dark)
    b.eye(0.81, 0.45, 0.035)


def duck(b: Brush) -> None:
    """A duck from the side: flat bill and folded wing."""
    b.blob(
        [(0.02, 0.5), (0.2, 0.6), (0.5, 0.56), (0.72, 0.6), (0.76, 0.82), (0.5, 0.97), (0.18, 0.9)]
    )
    b.blob([(0.55, 0.7), (0.58, 0.36), (0.74, 0.36), (0.76, 0.7)])
    b.poly([(0.82, 0.2), (0.99, 0.26), (0.98, 0.34), (0.82, 0.36)], BEAK)
    b.disc(0.7, 0.25, 0.22)
    b.blob([(0.16, 0.66), (0.4, 0.64), (0.58, 0.72), (0.4, 0.86), (0.22, 0.82)], b.dark)
    b.eye(0.76, 0.2, 0.045)


def penguin(b: Brush) -> None:
    """A standing penguin from the front: white belly, flippers, orange feet."""
    for side in (-1, 1):
        b.oval(0.5 + side * 0.18, 0.95, 0.16, 0.045, BEAK)
        out = b.rng.uniform(0.36, 0.46)
        b.blob([(0.5 + side * 0.28, 0.36), (0.5 + side * out, 0.64), (0.5 + side * 0.26, 0.62)])
    b.blob(
        [
            (0.5, 0.02),
            (0.74, 0.16),
            (0.84, 0.6),
            (0.7, 0.94),
            (0.3, 0.94),
            (0.16, 0.6),
            (0.26, 0.16),
        ]
    )
    b.blob([(0.5, 0.3), (0.7, 0.5), (0.66, 0.86), (0.34, 0.86), (0.3, 0.5)], (248, 248, 246))
    for side in (-1, 1):
        b.disc(0.5 + side * 0.13, 0.19, 0.065, (248, 248, 246))
        b.eye(0.5 + side * 0.12, 0.19, 0.03)
    b.poly([(0.4, 0.23), (0.6, 0.23), (0.5, 0.31)], BEAK)


def turtle(b: Brush) -> None:
    """A turtle from the side: a domed shell with plates."""
    skin = (150, 180, 90)
    b.poly([(0.06, 0.76), (0.0, 0.86), (0.16, 0.86)], skin)
    for x in (0.24, 0.64):
        b.oval(x, 0.87, 0.09, 0.11, skin)
    b.line([(0.74, 0.72), (0.86, 0.5)], 0.2, skin)
    b.oval(0.88, 0.44, 0.11, 0.17, skin)
    b.blob([(0.06, 0.82), (0.1, 0.5), (0.3, 0.14), (0.54, 0.14), (0.74, 0.5), (0.78, 0.82)])
    for x in (0.26, 0.44, 0.6):
        b.blob([(x - 0.07, 0.54), (x, 0.34), (x + 0.07, 0.54), (x, 0.7)], b.dark)
    b.eye(0.91, 0.4, 0.045)


def butterfly(b: Brush) -> None:
    """A butterfly from above: four spotted wings."""
    for side in (-1, 1):

        def at(x: float, y: float, side: int = side) -> tuple[float, float]:
            return 0.5 + side * x, y

        b.blob([at(0.03, 0.55), at(0.2, 0.5), at(0.4, 0.7), at(0.34, 0.94), at(0.14, 0.9)], b.dark)
        b.blob([at(0.03, 0.5), at(0.12, 0.12), at(0.4, 0.04), at(0.49, 0.3), at(0.3, 0.56)])
        b.disc(*at(0.32, 0.24), b.about(0.08), b.light)
        b.disc(*at(0.24, 0.74), b.about(0.06), b.light)
        b.line([at(0.01, 0.2), at(0.1, 0.03)], 0.02, INK)
    b.oval(0.5, 0.52, 0.035, 0.34, INK)


def fish(b: Brush) -> None:
    """A fish from the side: fins, a forked tail, a stripe."""
    b.poly([(0.28, 0.5), (0.0, b.rng.uniform(0.08, 0.2)), (0.08, 0.5), (0.0, 0.88)], b.dark)
    b.blob([(0.4, 0.28), (0.5, 0.02), (0.68, 0.1), (0.7, 0.28)], b.dark)
    b.blob([(0.18, 0.5), (0.42, 0.18), (0.74, 0.18), (0.98, 0.5), (0.74, 0.84), (0.42, 0.84)])
    b.blob(
        [(0.44, 0.24), (0.52, 0.22), (0.56, 0.5), (0.52, 0.8), (0.44, 0.78), (0.48, 0.5)], b.light
    )
    b.poly([(0.66, 0.56), (0.54, 0.76), (0.7, 0.7)], b.dark)
    b.eye(0.84, 0.42, 0.07)
    b.line([(0.88, 0.64), (0.95, 0.58)], 0.03, INK)


def crab(b: Brush) -> None:
    """A crab from the front: two claws, eyes on stalks."""
    for side in (-1, 1):
        for i in range(3):
            y = 0.62 + 0.1 * i
            b.line(
                [
                    (0.5 + side * 0.2, y - 0.05),
                    (0.5 + side * 0.4, y),
                    (0.5 + side * 0.44, y + 0.14),
                ],
                0.05,
                b.dark,
            )
        raised = b.rng.uniform(0.16, 0.3)
        b.line([(0.5 + side * 0.24, 0.55), (0.5 + side * 0.38, raised + 0.16)], 0.08)
        b.disc(0.5 + side * 0.38, raised, 0.16)
        b.poly(
            [
                (0.5 + side * 0.38, raised - 0.02),
                (0.5 + side * 0.34, raised - 0.18),
                (0.5 + side * 0.44, raised - 0.18),
            ],
            b.dark,
        )
        b.line([(0.5 + side * 0.08, 0.5), (0.5 + side * 0.1, 0.24)], 0.05)
    b.oval(0.5, 0.64, 0.29, 0.26)
    for side in (-1, 1):
        b.eye(0.5 + side * 0.1, 0.24, 0.07)
    b.arc(0.5, 0.64, 0.1, 0.1, 20, 160, 0.035, b.dark)


def octopus(b: Brush) -> None:
    """An octopus: a round head on wavy arms."""
    for i in range(6):
        x = 0.18 + i * 0.128
        sway = b.rng.uniform(-0.08, 0.08)
        end = min(0.95, max(0.05, x + (x - 0.5) * 0.4 + sway))
        b.line(
            [(0.3 + i * 0.08, 0.5), (x, 0.72), (x - sway, 0.84), (end, 0.95)],
            0.085,
            b.dark if i % 2 else b.colour,
        )
    b.blob(
        [
            (0.5, 0.02),
            (0.78, 0.14),
            (0.82, 0.42),
            (0.68, 0.64),
            (0.32, 0.64),
            (0.18, 0.42),
            (0.22, 0.14),
        ]
    )
    for side in (-1, 1):
        b.eye(0.5 + side * 0.13, 0.36, 0.065)
    b.arc(0.5, 0.48, 0.08, 0.06, 20, 160, 0.025, b.dark)


def _head(b: Brush, hair: tuple[int, int, int], skin: tuple[int, int, int]) -> None:
    b.disc(0.5, 0.13, 0.105, skin)
    b.blob([(0.26, 0.13), (0.34, 0.02), (0.66, 0.02), (0.74, 0.13), (0.6, 0.08), (0.4, 0.08)], hair)
    for x in (0.42, 0.58):
        b.disc(x, 0.14, 0.012, INK)
    b.arc(0.5, 0.165, 0.08, 0.02, 20, 160, 0.01, (180, 70, 70))


def _arms(b: Brush, skin: tuple[int, int, int], left: float, right: float) -> None:
    """Arms from the shoulders to hands at the given heights."""
    for side, hand in ((-1, left), (1, right)):
        b.line([(0.5 + side * 0.2, 0.3), (0.5 + side * 0.4, (0.32 + hand) / 2)], 0.065)
        b.line([(0.5 + side * 0.4, (0.32 + hand) / 2), (0.5 + side * 0.44, hand)], 0.05, skin)


HAIRS = ((52, 38, 32), (120, 72, 36), (226, 184, 96), (176, 74, 36), (60, 56, 60))


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

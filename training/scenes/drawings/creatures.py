"""Drawings of birds, sea animals, turtles and butterflies."""

from __future__ import annotations

from training.scenes.drawings.brush import INK, Brush

BEAK = (244, 160, 40)


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

"""Ways in which files get damaged."""

from __future__ import annotations

import random
from pathlib import Path

KINDS = ("bit", "ones", "zeros", "cut", "empty", "noise")


def damage(path: Path, kind: str, rng: random.Random) -> str:
    """Damage a file in place; says how, "" where the file is too short to differ."""
    old = path.read_bytes()
    new = bytearray(old)
    at = rng.randrange(len(old)) if old else 0
    size = min(64, len(old) - at)
    if kind == "bit" and old:
        new[at] ^= 1 << rng.randrange(8)
    elif kind == "ones":
        new[at : at + size] = b"\xff" * size
    elif kind == "zeros":
        new[at : at + size] = bytes(size)
    elif kind == "noise":
        new[at : at + size] = rng.randbytes(size)
    elif kind == "cut":
        del new[at:]
    elif kind == "empty":
        new.clear()
    path.write_bytes(new)
    return f"{kind} at byte {at} of {len(old)}" if new != old else ""

"""Model names: of the hub, of folders, of the models shipped with the package."""

from __future__ import annotations

from pathlib import Path

SAMPLE = Path(__file__).parent / "visualsparta" / "shipped" / "sample"


def resolve(name: str | Path) -> str | Path:
    """The folder of the model shipped with the package for the name "sample"; else the name.

    A folder of one's own of that name is "./sample".
    """
    return SAMPLE if name == "sample" else name

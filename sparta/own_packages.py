"""Whether the packages that are imported are those of this project."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sparta.errors import InputError

PACKAGES = ("indexer", "server", "training", "eval")  # imported besides this one; common names


def check_packages() -> None:
    """Refuse packages of other projects that have the names of ours.

    Raises:
        InputError: naming the file that would be imported instead.
    """
    for name in PACKAGES:
        spec = find_spec(name)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or [])]
        found = next((Path(place) for place in places if place), None)
        if found is None or found.parent.parent != Path(__file__).parents[1]:
            raise InputError(
                f"{found or 'nothing'} is imported as {name!r} instead of VisualSparta's package: "
                "install VisualSparta into an environment of its own (uv tool install, pipx)"
            )

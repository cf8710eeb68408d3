"""The swap that puts a finished folder where users look for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.manifest import is_index


def replace(new: Path, out: Path) -> None:
    """Put a finished index folder in the place of another, which stays until then.

    A folder cannot be renamed over a full one, so the old one steps aside first; if the machine
    stops between the two renames, `check_target` of the next build puts it back.
    """
    aside = _aside(out)
    if out.exists():
        out.rename(aside)
    new.rename(out)
    if aside.exists():
        shutil.rmtree(aside)


def _aside(out: Path) -> Path:
    return out.with_name(out.name + ".old")


def finish_swap(out: Path) -> None:
    """Clear up behind a `replace` that was cut short."""
    aside = _aside(out)
    if not is_index(aside):
        return
    if out.exists():
        shutil.rmtree(aside)
    else:
        aside.rename(out)

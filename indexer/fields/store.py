"""The declared kinds of an index folder's fields, in a file beside its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from indexer.fields.kinds import KINDS, Kind
from sparta.errors import InputError

DECLARED = "fields.json"


def save_kinds(folder: Path, kinds: Mapping[str, Kind]) -> None:
    """Write the file, unless nothing is declared."""
    if kinds:
        (folder / DECLARED).write_text(json.dumps(kinds, indent=2, ensure_ascii=False) + "\n")


def read_kinds(folder: Path) -> dict[str, Kind]:
    """The declared kinds; none without a file.

    Raises:
        InputError: if the file is damaged.
    """
    path = folder / DECLARED
    if not path.is_file():
        return {}
    try:
        kinds: dict[str, Kind] = json.loads(path.read_text(encoding="utf-8"))
        damaged = not isinstance(kinds, dict) or not set(kinds.values()) <= set(KINDS)
    except (ValueError, TypeError, RecursionError):
        damaged = True
    if damaged:
        raise InputError(f"{path} is damaged; build the index again")
    return kinds

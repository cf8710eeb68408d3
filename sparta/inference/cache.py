"""Converted networks on the disk: an entry is a folder, complete or not there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

FORMAT = 3  # of the entries; raised when the code that makes them changes
DESCRIPTION, HASHES = "description.json", "sha256.json"
FOLDER_VARIABLE = "VISUALSPARTA_CACHE"

Make = Callable[[Path], Mapping[str, Any]]


def cache_folder() -> Path:
    """`$VISUALSPARTA_CACHE`, else `visualsparta` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "visualsparta"


def find_entry(key: Mapping[str, Any]) -> tuple[Path, dict[str, Any]] | None:
    """An entry's folder and description, None if there is none or it is damaged.

    Args:
        key: all that decides the content, such as a hash of the weights.
    """
    folder = _folder(key)
    try:
        if json.loads((folder / HASHES).read_text()) != _hashes(folder):
            return None
        return folder, json.loads((folder / DESCRIPTION).read_text())
    except (OSError, ValueError):
        return None


def add_entry(key: Mapping[str, Any], make: Make) -> tuple[Path, dict[str, Any]]:
    """Make an entry and put it in its place in one step.

    Args:
        key: as for `find_entry`.
        make: writes the files into the folder that it is given, and returns a description that
            JSON can hold.

    Raises:
        OSError: if the folder cannot be written.
    """
    folder = _folder(key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(dir=folder.parent, prefix=".unfinished-"))
    try:
        description = dict(make(unfinished))
        (unfinished / DESCRIPTION).write_text(json.dumps(description, indent=2))
        (unfinished / HASHES).write_text(json.dumps(_hashes(unfinished), indent=2))
        if find_entry(key) is None:  # another process may have been faster
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder, description


def _folder(key: Mapping[str, Any]) -> Path:
    everything = {"format": FORMAT, "openvino": version("openvino"), **key}
    digest = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "networks" / digest[:32]


def _hashes(folder: Path) -> dict[str, str]:
    """File → SHA-256, of all but `HASHES`."""
    hashes = {}
    for path in folder.iterdir():
        if path.name != HASHES:
            with path.open("rb") as file:
                hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes

"""What identifies a network: a hash of its weights, whatever its name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from sparta.errors import InputError
from sparta.model_id import WEIGHTS, weight_files


def weights_hash(name: str) -> str:
    """First 16 hex digits of the sha256 of a checkpoint's weights: of content, not of the path.

    Raises:
        InputError: if no weights file is found.
    """
    if not (files := weight_files(name)):
        raise InputError(f"{name}: found neither {' nor '.join(WEIGHTS)}")
    return hash_files(files)


def hash_files(paths: Iterable[Path]) -> str:
    """First 16 hex digits of the sha256 of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]

"""What identifies a network: a hash of its weights, whatever its name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from sparta.errors import InputError
from sparta.model_id import find_file

WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def weights_hash(name: str) -> str:
    """First 16 hex digits of the sha256 of a checkpoint's weights: of content, not of the path.

    Raises:
        InputError: if no weights file is found.
    """
    for file in WEIGHTS:
        if path := find_file(name, file):
            return hash_files([path])
        if index := find_file(name, f"{file}.index.json"):
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            return hash_files(
                [path for part in sorted(set(parts)) if (path := find_file(name, part))]
            )
    raise InputError(f"{name}: found neither {' nor '.join(WEIGHTS)}")


def hash_files(paths: list[Path]) -> str:
    """First 16 hex digits of the sha256 of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]

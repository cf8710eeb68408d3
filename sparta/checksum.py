"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

CHUNK = 2**20


def sha256(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file's content.

    Args:
        path: the file.
        advance: called with the bytes of each part that is done.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while part := file.read(CHUNK):
            digest.update(part)
            if advance is not None:
                advance(len(part))
    return digest.hexdigest()

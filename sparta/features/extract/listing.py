"""The files of a folder of photos: their sizes and times, and links among them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from sparta.features.unchanged import Stamps


def file_stamps(folder: Path, ids: Iterable[str]) -> Stamps:
    """Size in bytes and time of modification in nanoseconds of each photo; -1 if unknown."""
    return {image_id: _stamp(folder / image_id) for image_id in ids}


def _stamp(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return [-1, -1]
    return [status.st_size, status.st_mtime_ns]


def listing_hash(stamps: Stamps) -> str:
    """Hash of names and sizes."""
    digest = hashlib.sha256()
    for image_id, (size, _) in stamps.items():
        digest.update(os.fsencode(f"{image_id}\0{size}\0"))
    return digest.hexdigest()[:16]


def links_outside(folder: Path, ids: Iterable[str]) -> int:
    """How many photos are links that lead out of the folder."""
    inside = folder.resolve()
    links = (path for image_id in ids if (path := folder / image_id).is_symlink())
    return sum(not path.resolve().is_relative_to(inside) for path in links)

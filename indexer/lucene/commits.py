"""Which commit of a Lucene index is the newest, seen without Java."""

from __future__ import annotations

from pathlib import Path

SEGMENTS = "segments_"  # and the number of the commit to the base of 36


def newest_commit(folder: Path) -> Path | None:
    """The file of the newest commit, whose name no other commit has; None if there is none."""
    found = folder.glob(f"{SEGMENTS}*")
    return max(found, key=lambda path: int(path.name[len(SEGMENTS) :], 36), default=None)

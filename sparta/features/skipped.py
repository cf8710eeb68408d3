"""Images that could not be used, and why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SKIPPED = "skipped.jsonl"


@dataclass(frozen=True)
class Skipped:
    """A photo that could not be used, and why."""

    image_id: str
    reason: str


def skipped_summary(folder: Path) -> str | None:
    """One line about the photos that a feature store lacks, None if it lacks none.

    Args:
        folder: of the store.
    """
    skipped = read_skipped(folder)
    if not skipped:
        return None
    ((reason, count),) = Counter(one.reason for one in skipped).most_common(1)
    path = folder / SKIPPED
    return f"{len(skipped)} photos could not be used: see {path}; {count} of them: {reason}"


def read_skipped(folder: Path) -> list[Skipped]:
    """The photos that a feature store lacks.

    Args:
        folder: of the store.
    """
    path = folder / SKIPPED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Skipped(**json.loads(line)) for line in lines]

"""Images that could not be used, and why."""

from __future__ import annotations

from dataclasses import dataclass

SKIPPED = "skipped.jsonl"


@dataclass(frozen=True)
class Skipped:
    """A photo that could not be used, and why."""

    image_id: str
    reason: str

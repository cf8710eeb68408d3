"""Features of files that have not changed since a store was written, for its next content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore

# Of each image's file what changes when it is replaced: size and time of modification.
Stamps: TypeAlias = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Changes:
    """How files differ from those a store was made of.

    Attributes:
        added: files that are new.
        changed: files that were replaced.
        removed: files that are gone.
        kept: files whose features are kept.
    """

    added: int
    changed: int
    removed: int
    kept: int

    def __str__(self) -> str:
        return (
            f"since features were stored {self.added:,} photos were added, {self.changed:,} "
            f"changed and {self.removed:,} removed; features of {self.kept:,} are kept"
        )


class UnchangedImages:
    """Images of the former contents of a store, by id, as far as their files are the same.

    Args:
        folder: of the store.
        header: of the store; "superseded" has shards and file of stamps of each former content,
            the oldest first.
        stamps: of the files as they are now.

    Attributes:
        changes: None without a former content.

    Raises:
        InputError: if a shard is damaged.
    """

    def __init__(self, folder: Path, header: dict[str, Any], stamps: Stamps) -> None:
        self._rows: dict[str, tuple[FeatureStore, int]] = {}
        former: dict[str, Sequence[int]] = {}
        for content in header["superseded"]:
            store = FeatureStore(folder, header | _whole(folder, content))
            known = load_stamps(folder, content)
            former |= dict.fromkeys(store.ids, ()) | known
            for row, image_id in enumerate(store.ids):
                if image_id in stamps and stamps[image_id] == known.get(image_id):
                    self._rows[image_id] = store, row
        added = sum(image_id not in former for image_id in stamps)
        both = [image_id for image_id in stamps if image_id in former]
        changed = sum(stamps[image_id] != former[image_id] for image_id in both)
        counts = Changes(added, changed, len(former) - len(both), len(self._rows))
        self.changes = counts if former else None

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._rows

    def __getitem__(self, image_id: str) -> ImageFeatures:
        """One image.

        Raises:
            KeyError: if there is none, or its file has changed.
        """
        store, row = self._rows[image_id]
        return store[row]


def stamps_file(stamps: Stamps) -> str:
    """The name of a file of stamps, which their hash is part of."""
    digest = hashlib.sha256(json.dumps(stamps).encode()).hexdigest()
    return f"stamps-{digest[:16]}.json"


def load_stamps(folder: Path, content: dict[str, Any]) -> dict[str, Sequence[int]]:
    """The stamps of a former content; none where they are not known."""
    path = folder / (content["stamps"] or "")
    try:
        found: dict[str, Sequence[int]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _whole(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The shards whose files are there."""
    sizes = [(shard, folder / shard["file"]) for shard in content["shards"]]
    found = [s for s, path in sizes if path.is_file() and path.stat().st_size == s["bytes"]]
    return {"shards": found}

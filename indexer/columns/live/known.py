"""Which images a live index has, and their metadata, read without Java."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indexer.columns.image_table import ImageTable
from indexer.columns.live.state import ColumnState, live_images
from indexer.live.changes import Add, Change, Delete


class KnownImages:
    """The images of a state of the columns, with changes since. Safe from any thread.

    One thread at a time changes it, while others look images up.

    Args:
        index: the index folder.
        state: number of the state.

    Raises:
        InputError: if the state is damaged.
    """

    def __init__(self, index: Path, state: int) -> None:
        self._index = index
        # By log, the newest last: id → metadata, None where an image was deleted.
        self._changes: dict[int, dict[str, dict[str, Any] | None]] = {}
        self.follow(state)

    def note(self, log: int, change: Change) -> None:
        """Change an image.

        Args:
            log: number of the log that has the change; not below that of the one before.
            change: of the image.
        """
        own = self._changes.setdefault(log, {})
        if isinstance(change, Delete):
            own[change.image_id] = None
        else:
            metadata = change.image.metadata if isinstance(change, Add) else change.metadata
            own[change.image_id] = metadata

    def follow(self, state: int) -> None:
        """Forget changes that a newer state has."""
        live = live_images(self._index, state)
        self._tables = [(ImageTable(self._index / name), own) for name, own in live.items()]
        first = ColumnState.open(self._index, state).log
        # After the tables, so that whoever misses a change here finds it there.
        self._changes = {log: own for log, own in self._changes.items() if log >= first}

    def metadata(self, image_id: str) -> Mapping[str, Any] | None:
        """An image's metadata, None if there is no such image."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                changed: dict[str, Any] | None = own[image_id]
                return changed
        place = self._place(image_id)
        return None if place is None else place[0].stored(place[1]).metadata

    def __contains__(self, image_id: str) -> bool:
        """Whether there is an image; stored metadata is not read."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                return own[image_id] is not None
        return self._place(image_id) is not None

    def _place(self, image_id: str) -> tuple[ImageTable, int] | None:
        """The table of the state that has an image, and its document number there."""
        for table, live in self._tables:
            document = table.document(image_id)
            if document is not None and live[document]:
                return table, document
        return None

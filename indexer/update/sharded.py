"""Writes to an index, in shards or not: each image to the shard that owns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from indexer.shards import owner
from indexer.store.changes import Change
from indexer.store.commit import Commit
from indexer.store.given import Record
from sparta.progress import Progress, no_progress

if TYPE_CHECKING:
    from indexer.update.writer import IndexWriter


class Writer:
    """Writes to all shards of an index, or to its only one. Safe from any thread.

    Changes of several shards are checked together. They are written shard by shard: a process that
    is killed meanwhile leaves those of the first ones.

    Args:
        shards: a writer of each, in their order.
    """

    def __init__(self, shards: Sequence[IndexWriter]) -> None:
        self._shards = shards
        self._writing = Lock()

    def _owner(self, image_id: str) -> IndexWriter:
        return self._shards[owner(image_id, len(self._shards))]

    def _divided(self, changes: Sequence[Change]) -> dict[int, list[Change]]:
        parts: dict[int, list[Change]] = {}
        for change in changes:
            parts.setdefault(owner(change.image_id, len(self._shards)), []).append(change)
        return parts

    def check(self, changes: Sequence[Change]) -> None:
        """Check changes; see `IndexWriter.check`."""
        for number, own in self._divided(changes).items():
            self._shards[number].check(own)

    def write(self, changes: Sequence[Change]) -> dict[int, int]:
        """Write changes, or none if one cannot be applied.

        Returns:
            the position to sync in each shard that has changes.

        Raises:
            InputError, OSError: as `IndexWriter.write`.
        """
        with self._writing:
            self.check(changes)
            parts = self._divided(changes)
            return {number: self._shards[number].write(own) for number, own in parts.items()}

    def remember(self, record: Record) -> None:
        """Note what the user gave to images; see `IndexWriter.remember`."""
        for image_id, given in record.items():
            self._owner(image_id).remember({image_id: given})

    def sync(self, position: dict[int, int] | None = None) -> None:
        """Wait until changes survive a power cut; see `IndexWriter.sync`."""
        for number in range(len(self._shards)) if position is None else position:
            self._shards[number].sync(None if position is None else position[number])

    def commit(self) -> Commit:
        """Make all changes visible, shard by shard.

        Returns:
            a commit whose version is the sum of theirs, as that of a searcher of all shards.
        """
        commits = [shard.commit() for shard in self._shards]
        return replace(commits[0], version=sum(commit.version for commit in commits))

    def merge(self, progress: Progress = no_progress) -> None:
        """Make one segment of each shard's images; see `IndexWriter.merge`."""
        for shard in self._shards:
            shard.merge(progress)

    def tidy(self) -> None:
        """Remove what nothing needs; see `IndexWriter.tidy`."""
        for shard in self._shards:
            shard.tidy()

    def __contains__(self, image_id: str) -> bool:
        """Whether the index has an image, with all that has been written."""
        return image_id in self._owner(image_id)

    def __len__(self) -> int:
        """Images at the last commit."""
        return sum(map(len, self._shards))

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's metadata; see `IndexWriter.metadata`."""
        return self._owner(image_id).metadata(image_id)

    @property
    def segments_made(self) -> int:
        """Segments of columns of all shards made since the index was opened."""
        return sum(shard.segments_made for shard in self._shards)

    @property
    def in_place(self) -> bool:
        """Whether the folders of all shards are still those that were opened."""
        return all(shard.in_place for shard in self._shards)

    def settle(self) -> None:
        """Wait for columns; see `IndexWriter.settle`."""
        for shard in self._shards:
            shard.settle()

"""The images of an index while it is written to, and what an image must be like."""

from __future__ import annotations

from pathlib import Path

from indexer.postings import ImagePostings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import SegmentList, segment_folder
from indexer.store.images import ImageTable
from sparta.json_values import Json, JsonMapping


class KnownImages:
    """The images of some segments, with changes since. Safe from any thread.

    One thread at a time changes it, while others look images up.
    """

    def __init__(self, index: Path, listed: SegmentList) -> None:
        self._index = index
        # By log, the newest last: id → metadata, None where an image was deleted.
        self._changes: dict[int, dict[str, Json | None]] = {}
        self.follow(listed)
        self._count = sum(int(live.sum()) for _, live in self._tables)

    def note(self, log: int, change: Change) -> None:
        """Change an image; `log`, the number of the log with the change, never falls."""
        if not isinstance(change, MetadataChange):
            self._count += isinstance(change, Add) - (change.image_id in self)
        own = self._changes.setdefault(log, {})
        if isinstance(change, Delete):
            own[change.image_id] = None
        else:
            metadata = change.image.metadata if isinstance(change, Add) else change.metadata
            own[change.image_id] = metadata

    def follow(self, listed: SegmentList) -> None:
        """Forget changes that newer segments have."""
        live = listed.live(self._index)
        self._tables = [
            (ImageTable(segment_folder(self._index, name)), own) for name, own in live.items()
        ]
        # After the tables, so that whoever misses a change here finds it there.
        self._changes = {log: own for log, own in self._changes.items() if log >= listed.log}

    def metadata(self, image_id: str) -> JsonMapping | None:
        """An image's metadata, None if there is no such image."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                changed: Json | None = own[image_id]
                return changed
        place = self._place(image_id)
        return None if place is None else place[0].stored(place[1]).metadata

    def __contains__(self, image_id: str) -> bool:
        """Whether there is an image; stored metadata is not read."""
        for own in reversed(list(self._changes.values())):
            if image_id in own:
                return own[image_id] is not None
        return self._place(image_id) is not None

    def __len__(self) -> int:
        """How many images there are."""
        return self._count

    def _place(self, image_id: str) -> tuple[ImageTable, int] | None:
        """The table of the segment that has an image, and its document number there."""
        for table, live in self._tables:
            document = table.document(image_id)
            if document is not None and live[document]:
                return table, document
        return None


def problem_of(image: ImagePostings, vocabulary: int, largest: int) -> str | None:
    """Why an image cannot be in an index of so many terms and such impacts, else None."""
    terms, impacts, read = image.terms, image.impacts, image.inputs
    positions = len(read.boxes) + len(read.label_terms)
    if not len(terms) == len(impacts) == len(image.positions):
        return "it has other numbers of terms, impacts and positions"
    if len(terms) and not (terms[0] >= 0 and terms[-1] < vocabulary):
        return f"a term is not one of the {vocabulary} of the vocabulary"
    if (terms[1:] <= terms[:-1]).any():
        return "its terms do not rise"
    if ((impacts < 1) | (impacts > largest)).any():
        return f"an impact is not from 1 to {largest}"
    if ((image.positions < -1) | (image.positions >= positions)).any():
        return "a term was won by a position that it lacks"
    if len(read.label_terms) != len(read.label_regions):
        return "it has other numbers of label tokens and of their regions"
    if ((read.label_terms < 0) | (read.label_terms >= vocabulary)).any():
        return f"a label token is not one of the {vocabulary} of the vocabulary"
    if ((read.label_regions < 0) | (read.label_regions >= len(read.boxes))).any():
        return "a label token is of a region that it lacks"
    return None

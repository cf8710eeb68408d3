"""What the user gave: metadata and deletions, kept apart from what photo files and models say.

An index is made again from photos; this record is not, so a rebuild and a changed file consult it.
What was given belongs to the content it was given to. The size of the photo's file names a content
here; a size that is unknown, as of imported features, fits every content of the id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from indexer.manifest import UPLOAD, index_folders, owner
from indexer.store.changes import Change, Delete, MetadataChange, Sent
from indexer.store.log import ChangeLog, read_log, whole_end
from sparta.errors import InputError

FILE = "given.log"


@dataclass(frozen=True)
class Given:
    """What the user gave to one content of an image.

    Attributes:
        size: of the photo's file, in bytes; None if unknown.
        fields: by name; None where the user removed a field.
        built: those of `fields` that the metadata file of the last build gave.
        deleted: the image was deleted from the index; its photo was not.
        sent: what a client sent in place of the photo's file, "" for nothing; None as before.
    """

    size: int | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    built: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False
    sent: Sent | Literal[""] | None = None

    def fits(self, size: int | None) -> bool:
        """Whether a content of that size may be this one."""
        return None in (self.size, size) or self.size == size

    def record(self, image_id: str) -> MetadataChange:
        """As a record of the log."""
        default = vars(Given(None))
        values = {name: one for name, one in vars(self).items() if one != default[name]}
        return MetadataChange(image_id, {"size": self.size, **values})


Record = Mapping[str, list[Given]]  # image id → one for each content, the newest last


def given_of(change: Change, former: Mapping[str, Any] | None) -> Given | None:
    """What the user gave by a change, None for nothing.

    Args:
        change: of an image.
        former: its metadata before, None if the index lacked it.
    """
    if isinstance(change, Delete):
        if former is None or change.vanished:
            return None
        # A photo that was sent may have taken the place of one in the folder, which is meant too.
        return Given(None if UPLOAD in former else size_of(former), deleted=True)
    if change.given is None:
        return None
    if isinstance(change, MetadataChange):
        return Given(size_of(change.metadata), change.given)
    return Given(size_of(change.image.metadata), change.given, sent=change.sent or "")


def size_of(metadata: Mapping[str, Any]) -> int | None:
    """The size that names an image's content, from its metadata."""
    size = metadata.get("bytes")
    return size if isinstance(size, int) else None


def open_given(folder: Path, synced: int = 0) -> ChangeLog:
    """Open the record of an index folder for appending; it is made if there is none.

    Args:
        folder: of the index.
        synced: bytes that the last commit knows of.

    Raises:
        InputError: if it is damaged.
    """
    return ChangeLog(folder / FILE, synced)


def check_given(folder: Path, synced: int | None) -> None:
    """Read the record of an index folder.

    Args:
        folder: of the index.
        synced: bytes that the last commit knows of; None if nobody has written to the index, so
            that no record can be unfinished.

    Raises:
        InputError: if it is missing or damaged.
    """
    path = folder / FILE
    if synced and not path.is_file():
        raise InputError(f"{path} is missing: restore a snapshot, or what was given is lost")
    if path.is_file():
        size = path.stat().st_size if synced is None else synced
        deque(read_log(path, 0, whole_end(path, size)), 0)


def records_of(record: Record) -> list[MetadataChange]:
    """As records of the log, in order."""
    return [one.record(image_id) for image_id, given in record.items() for one in given]


def write_given(index: Path, record: Record) -> None:
    """Append to the record of an index, divided or not, and sync it."""
    folders = index_folders(index)
    for number, folder in enumerate(folders):
        own = {one: given for one, given in record.items() if owner(one, len(folders)) == number}
        if own:
            log = open_given(folder)
            log.append(records_of(own))
            log.sync()
            log.close()


def read_given(index: Path) -> dict[str, list[Given]]:
    """The record of an index, divided or not; empty if it has none.

    Raises:
        InputError: if it is damaged.
    """
    found: dict[str, list[Given]] = {}
    for path in [folder / FILE for folder in index_folders(index)]:
        if not path.is_file():
            continue
        for change in read_log(path, 0, whole_end(path)):  # a torn end was never acknowledged
            assert isinstance(change, MetadataChange)
            try:
                one = Given(**change.metadata)
            except TypeError as error:
                raise InputError(f"{path} is of another version: {error}") from error
            add_given(found, change.image_id, one)
    return found


def add_given(record: dict[str, list[Given]], image_id: str, one: Given) -> None:
    """Let what was given later add to, or replace, what was given to the same content."""
    former = record.setdefault(image_id, [])
    for place, same in enumerate(former):
        if same.size == one.size:
            del former[place]
            one = replace(
                one,
                fields={**same.fields, **one.fields},
                built=one.built or same.built,
                sent=same.sent if one.sent is None else one.sent,
            )
            break
    former.append(one)


def with_given(metadata: Mapping[str, Any], *given: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with fields replaced by given ones, later ones last; None removes one."""
    merged = dict(metadata)
    for fields in given:
        merged |= fields
    return {name: value for name, value in merged.items() if value is not None}

"""What the user gave: metadata and deletions, kept apart from what photo files and models say.

An index is made again from photos. A rebuild and a changed file therefore consult this record. What
was given belongs to the content it was given to. The size of the photo's file names a content here;
a size that is unknown, as of imported features, fits every content of the id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from indexer.manifest import UPLOAD, index_folders, owner
from indexer.postings import ImagePostings
from indexer.store.changes import Change, Delete, MetadataChange, Sent
from indexer.store.commit import LOGS, read_commit
from indexer.store.log import ChangeLog, read_log, read_records, whole_end, with_written
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.json_values import Json, JsonMapping

FILE = "given.log"


@dataclass(frozen=True)
class Given:
    """What the user gave to one content of an image."""

    size: int | None  # of the photo's file, in bytes; None if unknown
    # By name; None where the user removed a field
    fields: JsonMapping = field(default_factory=dict)
    # Those of `fields` that the metadata file of the last build gave
    built: JsonMapping = field(default_factory=dict)
    deleted: bool = False  # the image was deleted from the index; its photo was not
    # What a client sent in place of the photo's file, "" for nothing; None as before
    sent: Sent | Literal[""] | None = None
    # Number of the change log and position at which it has the change; nothing of a log
    place: Sequence[int] = (0, 0)

    def fits(self, size: int | None) -> bool:
        """Whether a content of that size may be this one."""
        return None in (self.size, size) or self.size == size

    def record(self, image_id: str) -> MetadataChange:
        """As a record of the log."""
        default = vars(Given(None))
        values = {name: one for name, one in vars(self).items() if one != default[name]}
        return MetadataChange(image_id, {"size": self.size, **values})


Record = Mapping[str, list[Given]]  # image id → one for each content, the newest last


def given_of(change: Change, former: JsonMapping | None) -> Given | None:
    """What the user gave by a change, None for nothing; `former` is the metadata before."""
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


def size_of(metadata: JsonMapping) -> int | None:
    """The size that names an image's content, from its metadata."""
    size = metadata.get("bytes")
    return size if isinstance(size, int) else None


def open_given(folder: Path, synced: int = 0, end: tuple[int, int] = (1, 0)) -> ChangeLog:
    """Open the record of an index folder, of which `synced` bytes are committed; made if absent.

    What a killed writer noted of changes that its log lacks, which has its `end`, is cut off.
    """
    log = ChangeLog(folder / FILE, synced)
    for start, changes in read_records(log.path, synced, log.end):
        if any(tuple(_given(log.path, change).place) >= end for change in changes):
            log.take_back(start)
            break
    return log


def records_of(record: Record) -> list[MetadataChange]:
    """As records of the log, in order, each of which replaces all of its content."""
    return [
        replace(one, sent=one.sent or "", place=(0, 0)).record(image_id)
        for image_id, given in record.items()
        for one in given
    ]


def write_given(index: Path, record: Record) -> None:
    """Append to the record of a new index, divided or not, and sync it."""
    folders = index_folders(index)
    for number, folder in enumerate(folders):
        own = {one: given for one, given in record.items() if owner(one, len(folders)) == number}
        if own:
            log = open_given(folder)
            log.append(records_of(own))
            log.sync()
            log.close()
            replace(read_commit(folder), given=log.end).save(folder)


def read_given(index: Path, committed: bool = False) -> dict[str, list[Given]]:
    """The record of an index, divided or not, of all that was written or of the last commit.

    Raises InputError if it is damaged, or missing although somebody has written to the index.
    """
    found: dict[str, list[Given]] = {}
    for folder in index_folders(index):
        path, end = folder / FILE, read_commit(folder)
        if not path.is_file():
            if end.given or (folder / LOGS).exists():
                raise InputError(
                    f"{path} is missing: restore a snapshot, or what was given is lost"
                )
            continue
        whole = whole_end(path, end.given)  # a torn end was never acknowledged
        end = end if committed else with_written(folder, end)
        for change in read_log(path, 0, whole):
            if tuple((one := _given(path, change)).place) < (end.log, end.bytes):
                add_given(found, change.image_id, one)
    return found


def _given(path: Path, change: Change) -> Given:
    assert isinstance(change, MetadataChange)
    try:
        return Given(**change.metadata)
    except TypeError as error:
        raise InputError(f"{path} is of another version: {error}") from error


def add_given(record: dict[str, list[Given]], image_id: str, one: Given) -> None:
    """Let what was given later take the place of what was given to the same content.

    A change of metadata alone adds to it. With a deletion, and with an image that was sent, the
    user gives up all that was given to the image before, whatever its content; deletions of other
    contents stay. What a metadata file gave is known of every content.
    """
    former = record.setdefault(image_id, [])
    built = one.built or next((own.built for own in reversed(former) if own.built), {})
    same = newest_of(former, one.size) or Given(one.size)
    former[:] = [own for own in former if own is not same]
    if one.deleted or one.sent:
        former[:] = [own for own in former if own.deleted]
        one = replace(one, fields={}) if one.deleted else one
    elif one.sent is None:
        one = replace(one, fields={**same.fields, **one.fields}, sent=same.sent)
    former.append(replace(one, built=built))


def newest_of(given: Sequence[Given], size: int | None) -> Given | None:
    """What was given last to a content of that size, None if nothing was."""
    return next((one for one in reversed(given) if one.fits(size)), None)


def with_given(metadata: JsonMapping, *given: JsonMapping) -> Json:
    """Metadata with fields replaced by given ones, later ones last; None removes one."""
    merged = dict(metadata)
    for fields in given:
        merged |= fields
    return {name: value for name, value in merged.items() if value is not None}


# Cosine of two images' impacts from which they show the same. A photo without its metadata has 1,
# the middle of crops, brighter and smaller copies 0.8 to 0.9; 99.9 % of pairs of photos are below
# 0.5, and the most alike of 20,000 pairs has 0.68.
ALIKE = 0.75


class FormerImages:
    """The images of an index and what the user gave to them.

    Images are those of the last commit, or all that were `written`; then nobody may write the
    index, which may be of a former format.

    Attributes:
        comparable: whether new images are encoded by the same models. If not, contents of different
            size are the same if the photos have the same width and height.
    """

    def __init__(self, index: Path, written: bool = False) -> None:
        self.record = read_given(index)
        # Images whose photos show something else than what fields were given to.
        self.aside: set[str] = set()
        self._folders, self.comparable = index_folders(index), True
        self.snapshot = cache(Snapshot.written if written else Snapshot.open)

    def given_to(self, image: ImagePostings) -> Given | None:
        """What the user gave to the content that an image of a file has now, else None."""
        given = self.record.get(image.image_id, [])
        sizes, former = [size_of(image.metadata)], self.image(image.image_id) if given else None
        if former is not None and self._same(former, image):
            # What was given last counts, also if the file is as it was some time before.
            sizes.insert(0 if self.comparable else 1, size_of(former.metadata))
        for size in sizes:
            if found := newest_of(given, size):
                return found
        if any(one.fields for one in given):
            self.aside.add(image.image_id)
        return None

    def is_deleted(self, image_id: str, size: int | None) -> bool:
        """Whether the user deleted an image whose photo's file still has that size."""
        found = newest_of(self.record.get(image_id, []), size)
        return found is not None and found.deleted and not self.has(image_id)

    def has(self, image_id: str) -> bool:
        """Whether the index has an image."""
        return self._index_of(image_id).document(image_id) is not None

    def image(self, image_id: str) -> ImagePostings | None:
        """An image of the index, None if there is none of that id."""
        index = self._index_of(image_id)
        document = index.document(image_id)
        return None if document is None else next(index.images([document]))

    def _index_of(self, image_id: str) -> Snapshot:
        return self.snapshot(self._folders[owner(image_id, len(self._folders))])

    def _same(self, one: ImagePostings, other: ImagePostings) -> bool:
        if not self.comparable:
            sides = ("width", "height")
            return all(one.metadata.get(name) == other.metadata.get(name) for name in sides)
        return similarity(one, other) >= ALIKE


def similarity(one: ImagePostings, other: ImagePostings) -> float:
    """Cosine of the impacts of two images, 0 if one has none."""
    shared = np.intersect1d(one.terms, other.terms, assume_unique=True, return_indices=True)
    product = one.impacts[shared[1]].astype(np.float64) @ other.impacts[shared[2]]
    norms = np.linalg.norm(one.impacts) * np.linalg.norm(other.impacts)
    return float(product / norms) if norms else 0.0

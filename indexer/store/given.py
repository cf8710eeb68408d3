"""What the user gave: metadata and deletions, kept apart from what photo files and models say.

An index is made again from photos. A rebuild and a changed file therefore consult this record. What
was given belongs to the content it was given to. The size of the photo's file names a content here;
a size that is unknown, as of imported features, fits every content of the id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from indexer.manifest import UPLOAD, index_folders, owner
from indexer.postings import ImagePostings
from indexer.store.changes import Change, Delete, MetadataChange, Sent
from indexer.store.commit import read_commit
from indexer.store.log import ChangeLog, read_log, whole_end
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


def open_given(folder: Path, synced: int = 0) -> ChangeLog:
    """Open the record of an index folder, of which `synced` bytes are committed; made if absent."""
    return ChangeLog(folder / FILE, synced)


def check_given(folder: Path, synced: int | None) -> None:
    """Read the record of an index folder, of which the last commit knows `synced` bytes.

    None if nobody has written to the index, so that no record can be unfinished. Raises InputError
    if it is missing or damaged.
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
            replace(read_commit(folder), given=log.end).save(folder)


def read_given(index: Path) -> dict[str, list[Given]]:
    """The record of an index, divided or not; raises InputError if it is damaged."""
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

    If new images are not `comparable`, as encoded by other models, contents of different size are
    the same if the photos have the same width and height.
    """

    def __init__(self, index: Path, comparable: bool = True) -> None:
        self.record = read_given(index)
        # Images whose photos show something else than what fields were given to.
        self.aside: set[str] = set()
        self._folders, self._comparable = index_folders(index), comparable
        self._opened: dict[Path, Snapshot] = {}

    def given_to(self, image: ImagePostings) -> Given | None:
        """What the user gave to the content that an image of a file has now, else None."""
        given = self.record.get(image.image_id, [])
        for one in reversed(given):
            if one.fits(size_of(image.metadata)):
                return one
        former = self.image(image.image_id) if given else None
        if former is not None and self._same(former, image):
            for one in reversed(given):
                if one.fits(size_of(former.metadata)):
                    return one
        if any(one.fields for one in given):
            self.aside.add(image.image_id)
        return None

    def has(self, image_id: str) -> bool:
        """Whether the index has an image."""
        return self._index_of(image_id).document(image_id) is not None

    def image(self, image_id: str) -> ImagePostings | None:
        """An image of the index, None if there is none of that id."""
        index = self._index_of(image_id)
        document = index.document(image_id)
        return None if document is None else next(index.images([document]))

    def _index_of(self, image_id: str) -> Snapshot:
        folder = self._folders[owner(image_id, len(self._folders))]
        if folder not in self._opened:
            self._opened[folder] = Snapshot.open(folder)
        return self._opened[folder]

    def _same(self, one: ImagePostings, other: ImagePostings) -> bool:
        if not self._comparable:
            sides = ("width", "height")
            return all(one.metadata.get(name) == other.metadata.get(name) for name in sides)
        return similarity(one, other) >= ALIKE


def similarity(one: ImagePostings, other: ImagePostings) -> float:
    """Cosine of the impacts of two images, 0 if one has none."""
    shared = np.intersect1d(one.terms, other.terms, assume_unique=True, return_indices=True)
    product = one.impacts[shared[1]].astype(np.float64) @ other.impacts[shared[2]]
    norms = np.linalg.norm(one.impacts) * np.linalg.norm(other.impacts)
    return float(product / norms) if norms else 0.0

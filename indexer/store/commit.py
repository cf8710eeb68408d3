"""`commit.json`: what one commit of an index consists of.

The file is replaced atomically, after everything that it names is on the disk. Readers take no
lock: they read it, open what it names, and read it again if a file has gone meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.manifest import LUCENE, MANIFEST
from sparta.errors import InputError
from sparta.files import UnsureError, find_work, recover, remove_work, sha256, sync
from sparta.json_values import Json, JsonMapping

COMMIT = "commit.json"
SEGMENTS = "segments"  # folder of an index; in it `000001/` and `000001.deleted-000002.npy`
LOGS = "log"  # folder of an index; in it `000001`
SEAL = "sha256"  # of the other values, so that damage is noticed
_OURS = re.compile(r"(\.?)(\d{6})(?:\.deleted-(\d{6})\.npy|\.work-\d+-[a-z0-9_]{8})?")


class ReplacedError(InputError):
    """Raised if the newest commit of an index does not continue the one that is open."""


@dataclass(frozen=True)
class SegmentEntry:
    """A segment as a commit lists it."""

    sha256: str  # of the segment's manifest, which has the hashes of its files
    images: int  # in the segment, deleted ones included
    # Name of the file of deleted images, beside the segment; None if there are none
    deleted: str | None = None
    deleted_sha256: str | None = None  # of that file

    def live(self, index: Path) -> NDArray[np.bool_]:
        """[images] which are not deleted; raises InputError if their file is damaged."""
        if self.deleted is None:
            return np.ones(self.images, np.bool_)
        path = index / SEGMENTS / self.deleted
        if not path.is_file():
            raise InputError(f"{path} is missing: the index is damaged; restore a snapshot")
        if sha256(path) != self.deleted_sha256:
            raise InputError(f"{path} is damaged: it has another hash; restore a snapshot")
        bits = np.load(path, allow_pickle=False)
        return np.unpackbits(bits, count=self.images).view(np.bool_)


@dataclass(frozen=True)
class SegmentList:
    """The segments of a commit, in the order of their documents."""

    log: int = 1  # number of the first change log whose changes are in no segment
    # By the names of the segments
    entries: Mapping[str, SegmentEntry] = field(default_factory=dict)

    def live(self, index: Path) -> dict[str, NDArray[np.bool_]]:
        """Which images of each segment are not deleted."""
        return {name: entry.live(index) for name, entry in self.entries.items()}


def write_segment_list(
    index: Path, number: int, log: int, segments: Mapping[str, NDArray[np.bool_]]
) -> SegmentList:
    """A list of segments, whose files of deleted images are written and synced.

    No segment or file of deleted images has the `number`; `log` is the first change log whose
    changes are in no segment. `segments` are by name which images are not deleted; a segment
    without any is not listed.
    """
    entries = {}
    for name, live in segments.items():
        if not live.any():
            continue
        seal = sha256(index / SEGMENTS / name / MANIFEST)
        if live.all():
            entries[name] = SegmentEntry(seal, len(live))
            continue
        path = index / SEGMENTS / f"{name}.deleted-{number:06d}.npy"
        np.save(path, np.packbits(live))
        sync(path)
        entries[name] = SegmentEntry(seal, len(live), path.name, sha256(path))
    sync(index / SEGMENTS)
    return SegmentList(log, entries)


@dataclass(frozen=True)
class Commit:
    """`commit.json`; that of an index as it was built has version 0.

    Copies of an index number their commits alike, and may then differ. So a commit names its
    lineage: all commits that one writer makes from its opening to its end.
    """

    version: int = 0  # rises by one with every commit
    log: int = 1  # number of the change log
    bytes: int = 0  # position in the log up to which changes are part of the commit
    lineage: str = ""  # random name; empty as built
    parent: str = ""  # lineage of the commit that the writer found when it was opened
    began: int = 0  # version of that commit
    given: int = 0  # bytes of the record of what the user gave (`indexer.store.given`)
    images: int = 0  # that are not deleted
    changes: int = 0  # since the index was built
    segments: SegmentList = SegmentList()  # what finished change logs have become

    @property
    def name(self) -> dict[str, str]:
        """Version and lineage, which name the commit among those of an index and its copies."""
        return {"version": str(self.version), "lineage": self.lineage}

    def continues(self, former: Commit) -> bool:
        """Whether the change logs lead from a former commit of the same build to this one.

        If not, as after an older state was restored, nothing that was read of the former commit
        may be used.
        """
        if not former.version:
            return True
        if self.lineage == former.lineage:
            return former.version <= self.version
        return self.parent == former.lineage and former.version <= self.began

    def save(self, index: Path) -> None:
        """Replace the commit of an index; what it names must be on the disk.

        Raises OSError if the disk fails: UnsureError if readers may have found the new commit,
        else the former one stays.
        """
        values = asdict(self)
        unfinished = index / f"{COMMIT}.new"
        unfinished.write_text(json.dumps(values | {SEAL: _seal(values)}) + "\n")
        sync(unfinished)
        unfinished.replace(index / COMMIT)
        try:
            sync(index)
        except OSError as error:
            raise UnsureError(error) from error


def read_commit(index: Path) -> Commit:
    """The newest commit of an index folder; raises InputError if it is missing or damaged."""
    return parse_commit(commit_content(index), index)


def lucene_commit(index: Path) -> Commit | None:
    """The commit that Lucene's index is of, whose segments are kept for it; None without one."""
    try:
        return read_commit(index / LUCENE)
    except InputError:
        return None


def commit_content(index: Path) -> bytes:
    """The content of `commit.json`, which no other commit has; raises InputError."""
    try:
        return (index / COMMIT).read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"{index / COMMIT} is missing: restore a snapshot, or build the index again"
        ) from error


def parse_commit(content: bytes, index: Path) -> Commit:
    """Read the content of `commit.json`; raises InputError if it is damaged."""
    path = index / COMMIT
    try:
        values: Json = json.loads(content)
        seal = values.pop(SEAL)
        damaged = seal != _seal(values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        damaged = True
    if damaged:
        raise InputError(f"{path} is damaged: restore a snapshot, or build the index again")
    if values.keys() - {one.name for one in fields(Commit)}:  # a former one may lack some
        raise InputError(f"{path} is of another version: build the index again with `sparta index`")
    listed = values.pop("segments")
    entries = {name: SegmentEntry(**entry) for name, entry in listed["entries"].items()}
    return Commit(**values, segments=SegmentList(listed["log"], entries))


def _seal(values: JsonMapping) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def segment_folder(index: Path, name: str) -> Path:
    """The folder of a segment."""
    return index / SEGMENTS / name


def segment_name(number: int) -> str:
    """The name of a segment."""
    return f"{number:06d}"


def log_path(index: Path, number: int) -> Path:
    """The change log of an index folder by its number."""
    return index / LOGS / f"{number:06d}"


def log_numbers(index: Path) -> list[int]:
    """Numbers of the change logs of an index folder."""
    return [int(path.name) for path in (index / LOGS).glob("[0-9]*") if path.name.isdecimal()]


def next_number(index: Path) -> int:
    """A number that no segment, file of deleted images or unfinished one of either has."""
    numbers = (
        int(number) for match in _segment_files(index) for number in match.groups()[1:] if number
    )
    return 1 + max(numbers, default=0)


def remove_unlisted(
    index: Path, lists: Iterable[SegmentList], making: Collection[int] = ()
) -> None:
    """Remove segments and files of deleted images that no list has, and logs that all include.

    Only the writer of the index may call this. `lists` are of commits that may be read, `making`
    are numbers that are being written.
    """
    lists = list(lists)
    lucene = lucene_commit(index)
    entries = [pair for one in lists for pair in one.entries.items()]
    entries += lucene.segments.entries.items() if lucene else ()
    kept = {name for name, _ in entries} | {entry.deleted for _, entry in entries}
    for match in _segment_files(index):
        hidden, segment, deletion = match.groups()
        path = index / SEGMENTS / match[0]
        if int(deletion or segment) in making or match[0] in kept:
            continue
        if hidden:
            out = index / SEGMENTS / segment
            recover(out)
            for left in find_work(out):
                remove_work(left)
        elif deletion:
            path.unlink()
        else:
            shutil.rmtree(path)
    first = min(one.log for one in lists)
    for earlier in log_numbers(index):
        if earlier < first:
            log_path(index, earlier).unlink()


def _segment_files(index: Path) -> list[re.Match[str]]:
    """Segments, files of deleted images, and work folders of unfinished segments."""
    folder = index / SEGMENTS
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [match for name in sorted(names) if (match := _OURS.fullmatch(name))]

"""The photos of a folder as they are, as they were last seen, and what has to be done."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from indexer.manifest import SEEN, SYNC, SYNC_AGAIN, UPLOAD, is_sharded, located, read_seen
from indexer.store.changes import NOT_CHANGES, Add, Change, Delete, MetadataChange
from indexer.store.given import FormerImages, Given, size_of, with_given
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.extract.image_files import PhotoError, open_photo, reason_of
from sparta.extract.photo_metadata import files_beside, photo_metadata
from sparta.extract.photos import (
    DEFAULT,
    UNKNOWN,
    Choice,
    Stamp,
    is_listed,
    not_utf8,
    read_stamp,
    stamp_of,
    walk_photos,
)
from sparta.features.store import FeatureStore
from sparta.files import sync, writing
from sparta.json_values import Json
from sparta.progress import Notice, no_notice


@dataclass(frozen=True)
class Scan:
    """Photos below a folder.

    Attributes:
        photos: stamp of each that can be read, by id.
        closed: folders that cannot be read, as beginnings of ids; what is in them is unknown.
        problems: why paths cannot be read, those of closed folders too.
        passed: how many photos are of formats that are not read, by format.
        beside: sizes and times of the files beside a photo that may say something about it, by id.
    """

    photos: dict[str, Stamp]
    closed: list[str]
    problems: dict[str, str]
    passed: Counter[str] = field(default_factory=Counter)
    beside: dict[str, str | None] = field(default_factory=dict)

    @property
    def found(self) -> int:
        """Photos that are there, whether they can be read or not."""
        return len(self.photos) + len(self.problems) - len(self.closed)

    def hides(self, image_id: str) -> bool:
        """Whether a photo that is not among `photos` may still be there."""
        return image_id in self.problems or any(image_id.startswith(one) for one in self.closed)


def scan_photos(root: Path, below: str = "", choice: Choice = DEFAULT) -> Scan:
    """Find everything that is named like a photo, as `walk_photos` does.

    `below` is the beginning of the ids wanted: "" or a folder in the root with a slash at the end.
    """
    photos: dict[str, Stamp] = {}
    closed: list[str] = []
    problems: dict[str, str] = {}
    passed: Counter[str] = Counter()
    others: set[str] = set()
    for path, error in walk_photos(root / below, choice._replace(below=below), passed, others):
        image_id = below + path
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            continue  # a folder that has gone meanwhile
        if error:
            folder = image_id.rstrip("/")
            closed.append(f"{folder}/" if folder else "")
            unnamed = not_utf8(folder)
            problems[unnamed.image_id if unnamed else folder or "."] = reason_of(error)
        elif unnamed := not_utf8(image_id):
            problems[unnamed.image_id] = unnamed.reason
        else:
            try:
                photos[image_id] = read_stamp(root / image_id)
            except (OSError, PhotoError) as reason:
                problems[image_id] = reason_of(reason)
    there = {below + path for path in others}
    beside = {one: beside_of(root, one, there) for one in photos} if there else {}
    ordered = dict(sorted(photos.items())), closed, dict(sorted(problems.items()))
    return Scan(*ordered, passed, beside)


def beside_of(root: Path, image_id: str, there: Container[str] | None = None) -> str | None:
    """Sizes and times of the files beside a photo that may say something about it, None for none.

    If it is known which files are `there`, others are not looked for.
    """
    names = (one for one in files_beside(image_id) if there is None or one in there)
    stamps = [stamp for name in names if (stamp := stamp_of(root / name)) != UNKNOWN]
    return " ".join(f"{one.bytes}:{one.mtime_ns}" for one in stamps) or None


LOCKED = ".sync"  # in an index, by who follows a folder
VERSION = "1"
SCHEMA = pa.schema(
    {
        "image_id": pa.string(),
        "bytes": pa.int64(),
        "mtime_ns": pa.int64(),
        "sha256": pa.string(),  # null if the content was not read
        "problem": pa.string(),  # null if the photo could be used
        "beside": pa.string(),  # null if nothing is beside it
    }
)


class Seen(NamedTuple):
    """One photo.

    Attributes:
        stamp: of its file.
        sha256: of its content; None if it was not read, as of an index built from features.
        problem: why it cannot be used, None if it can.
        beside: as in `Scan`, when metadata were read; None if there was nothing.
    """

    stamp: Stamp
    sha256: str | None = None
    problem: str | None = None
    beside: str | None = None


@dataclass
class SeenPhotos:
    """`sync/HASH.arrow`: the photos of one folder; `.built` where the index was built from them.

    Attributes:
        root: the folder that ids are relative to.
        photos: by id.
        choice: by which they were chosen.
    """

    root: Path
    photos: dict[str, Seen] = field(default_factory=dict)
    choice: Choice = DEFAULT

    @classmethod
    def open(cls, index: Path, root: Path, built: bool = False) -> SeenPhotos | None:
        """Read the file of an index about a folder, perhaps its build's, None if there is none.

        Raises InputError if it is damaged.
        """
        path = _path(index, root, built)
        if not os.path.lexists(path):
            return None
        with _reading(path):
            table = _read(path)
            return cls(root, _photos(table), _choice(table))

    def of(self, below: str) -> dict[str, Seen]:
        """The photos whose ids begin so."""
        return {key: one for key, one in self.photos.items() if key.startswith(below)}

    def save(self, index: Path, built: bool = False) -> None:
        """Write the file, whole or not at all."""
        ordered = sorted(self.photos.items())
        about = {"version": VERSION, "root": os.fsencode(self.root)}
        about["choice"] = json.dumps([list(one) for one in self.choice[:2]])
        table = pa.table(
            [
                [image_id for image_id, _ in ordered],
                [one.stamp.bytes for _, one in ordered],
                [one.stamp.mtime_ns for _, one in ordered],
                [one.sha256 for _, one in ordered],
                [one.problem for _, one in ordered],
                [one.beside for _, one in ordered],
            ],
            schema=SCHEMA.with_metadata(about),
        )
        path = _path(index, self.root, built)
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        content = pa.BufferOutputStream()
        with pa.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table)
        data = content.getvalue().to_pybytes()
        unfinished.write_bytes(data + hashlib.sha256(data).digest())
        sync(unfinished)
        unfinished.replace(path)
        sync(path.parent)


def note_added(index: Path, store: FeatureStore) -> None:
    """Note photos that were just extracted and added, if `sparta sync` follows their folder.

    A photo that was replaced since, or that a sync leaves out, is not noted. A sync that is running
    would not read the note: it encodes these photos again.
    """
    root = store.photos
    assert root is not None
    with suppress(InputError), writing(located(index) / LOCKED):
        built = not _path(index, root, False).is_file()
        if (seen := SeenPhotos.open(index, root, built)) is None:
            return
        stamps = store.stamps
        for image_id in filter(partial(is_listed, root), store.ids):
            stamp, digest = Stamp(*stamps[image_id]), content_hash(root / image_id)
            if digest and stamp_of(root / image_id) == stamp:
                seen.photos[image_id] = Seen(stamp, digest, None, beside_of(root, image_id))
        seen.save(index, built)


def synced_folders(index: Path) -> list[Path]:
    """The folders that an index was brought up to date with; raises InputError."""
    found = []
    for path in sorted((located(index) / SYNC).glob("*.arrow")):
        with _reading(path):
            found.append(Path(os.fsdecode(_read(path).schema.metadata[b"root"])))
    return found


def choice_of(index: Path, root: Path, given: Choice, notice: Notice = no_notice) -> Choice:
    """Which photos of a folder to take: as given, else as at the last time; raises InputError.

    `notice` gets a line about patterns of the last time.
    """
    if given.include or given.exclude:
        return given
    seen = (SeenPhotos.open(index, root, built) for built in (False, True))
    found = next((one.choice for one in seen if one is not None), DEFAULT)
    if str(found):
        notice(f"{root}: {found} as the last time; patterns that you give replace these")
    return found


def _choice(table: pa.Table) -> Choice:
    noted = json.loads(table.schema.metadata.get(b"choice", "[[], []]"))
    return Choice(tuple(noted[0]), tuple(noted[1]))


def _path(index: Path, root: Path, built: bool) -> Path:
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()
    return located(index) / SYNC / f"{digest[:16]}{SEEN[built]}"


def _read(path: Path) -> pa.Table:
    table = pa.ipc.open_file(pa.BufferReader(read_seen(path))).read_all()
    table.validate(full=True)
    metadata = table.schema.metadata or {}
    if metadata[b"version"] != VERSION.encode() or b"\0" in metadata[b"root"]:
        raise ValueError
    return table


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (*NOT_CHANGES, KeyError, RecursionError) as error:
        raise InputError(f"{path} is damaged or of another version: {SYNC_AGAIN}") from error


def _photos(table: pa.Table) -> dict[str, Seen]:
    names = [name for name in SCHEMA.names if name in table.schema.names]  # "beside" came later
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return {image_id: Seen(Stamp(size, mtime), *more) for image_id, size, mtime, *more in rows}


Key = Callable[[str], Hashable]
VANISHED = 0.2  # share of the photos from which a disk is rather not mounted
AT_ONCE = 256  # images in memory


@dataclass
class Plan:
    """Photos by what happened to them since they were seen.

    Attributes:
        seen: how many there were.
        found: how many there are.
        new: ids.
        changed: ids of photos with other content, or that could not be used before.
        moved: former id by the id that the same content has now.
        vanished: ids.
        touched: photos whose file has another time, and the same content.
        beside: ids of photos beside which something else is now, with the former id of each.
        described: other metadata, by id, that these have therefore.
        unusable: ids of photos that could not be used and are as they were, with the reason.
    """

    seen: int
    found: int
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    vanished: list[str] = field(default_factory=list)
    touched: dict[str, Seen] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    described: dict[str, Json] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        moved = self.moved or self.vanished
        return bool(self.new or self.changed or moved or self.touched or self.described)

    def alarm(self, folder: Path) -> str | None:
        """Why the folder is rather not there than emptied; None if all is well."""
        if self.seen and not self.found:
            state = "holds no photo any more" if folder.is_dir() else "does not exist"
            return f"{folder} {state}, and {self.seen:,} were there before"
        if len(self.vanished) > VANISHED * self.seen:
            return f"{len(self.vanished):,} of {self.seen:,} photos have vanished from {folder}"
        return None


def compare(root: Path, scan: Scan, before: Mapping[str, Seen], kept: Choice = DEFAULT) -> Plan:
    """Compare photos with what was seen: by size and time, and where these differ by content.

    Files below the root are read. A photo that is there and that a pattern of `kept` excludes has
    not vanished.
    """
    plan = Plan(len(before), scan.found)
    for image_id, stamp in scan.photos.items():
        former = before.get(image_id)
        if former is None:
            plan.new.append(image_id)
        elif former.stamp == stamp:
            if former.problem is not None:
                plan.unusable[image_id] = former.problem
        elif _same_content(root / image_id, stamp, former):
            plan.touched[image_id] = former._replace(stamp=stamp)
        else:
            plan.changed.append(image_id)
    gone = [one for one in before if one not in scan.photos and not scan.hides(one)]
    gone = [one for one in gone if not (kept.excludes(one) and os.path.lexists(root / one))]
    # A photo may also have come to where another one was, which may be elsewhere now.
    arrived = {one: scan.photos[one] for one in plan.new + plan.changed}
    plan.moved = _moves(root, arrived, [*gone, *plan.changed], before)
    former_ids = set(plan.moved.values())
    plan.new = [image_id for image_id in plan.new if image_id not in plan.moved]
    plan.changed = [image_id for image_id in plan.changed if image_id not in plan.moved]
    plan.vanished = [image_id for image_id in gone if image_id not in former_ids]
    same = {one: one for one in before.keys() & scan.photos.keys() - arrived.keys()} | plan.moved
    for image_id, former_id in sorted(same.items()):
        if scan.beside.get(image_id) != before[former_id].beside:
            plan.beside[image_id] = former_id
    return plan


def _same_content(path: Path, stamp: Stamp, former: Seen) -> bool:
    known = former.sha256 is not None and stamp.bytes == former.stamp.bytes
    return known and content_hash(path) == former.sha256


def _moves(
    root: Path, new: Mapping[str, Stamp], gone: Iterable[str], before: Mapping[str, Seen]
) -> dict[str, str]:
    """New photos that are vanished ones at another place, with the former id of each.

    Those of which no content is known are the same if size and time are, and no other file's are,
    or none of the same name.
    """
    lost = {image_id for image_id in gone if before[image_id].problem is None}
    sizes = {before[image_id].stamp.bytes for image_id in lost}
    left = {image_id for image_id, stamp in new.items() if stamp.bytes in sizes}

    def unread(image_id: str) -> Stamp | None:
        return before[image_id].stamp if before[image_id].sha256 is None else None

    ways: list[tuple[Key, Key, bool]] = [
        (lambda one: (unread(one), _name(one)), lambda one: (new[one], _name(one)), True),
        (unread, lambda one: new[one], True),
        (lambda one: before[one].sha256, lambda one: content_hash(root / one), False),
    ]
    found: dict[str, str] = {}
    for key_of_lost, key_of_new, single in ways:
        former = _grouped(lost, key_of_lost)
        for key, ids in _grouped(left, key_of_new).items() if former else ():
            same = former.get(key, [])
            if not single or (len(ids) == 1 and len(same) == 1):
                found |= dict(zip(ids, same, strict=False))
        lost -= set(found.values())
        left -= found.keys()
    return found


def _name(image_id: str) -> str:
    return image_id.rpartition("/")[2]


def _grouped(ids: Iterable[str], key_of: Key) -> dict[Hashable, list[str]]:
    """Ids by their keys, but for those without one."""
    groups: dict[Hashable, list[str]] = {}
    for image_id in sorted(ids):
        if (key := key_of(image_id)) is not None:
            groups.setdefault(key, []).append(image_id)
    return groups


def content_hash(path: Path) -> str | None:
    """SHA-256 of a photo's content, None if it cannot be read."""
    try:
        with open_photo(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, PhotoError):
        return None


def move_and_delete(
    index: Path, moved: Mapping[str, str], gone: Iterable[str], before: Mapping[str, Seen]
) -> tuple[int, int, list[str]]:
    """Give images other ids (former by new), with their terms and metadata, and delete others.

    An image appears under its new id in the commit in which it disappears under the former one; in
    another shard it is there before. Images that the user deleted from the index are passed over.

    Returns how many images were moved and deleted, and the new ids that have to be encoded, whose
    former images stay: those that a snapshot of shards lacks, and in shards those that come to
    where an image is that moves as well, since no single write moves both.
    """
    with open_writer(index) as writer:
        writer.commit()
        former, divided = FormerImages(index), is_sharded(index)
        record = former.record
        given = {
            new: [each for each in record.get(one, ()) if each.fits(before[one].stamp.bytes)]
            for new, one in moved.items()
        }
        passed = {new for new, own in given.items() if own and own[-1].deleted}
        # What a killed run moved has left nothing under its former id.
        known = passed | {new for new, one in moved.items() if one in writer}
        writer.remember({new: own for new, own in given.items() if own and new in known})
        left = {new: one for new, one in moved.items() if new not in passed}
        there = {new: one for new, one in left.items() if one in writer}
        again = {new for new in left.keys() - there.keys() if new not in writer}
        again |= there.keys() & {*there.values()} if divided else set()
        there = {new: one for new, one in there.items() if new not in again}
        for changes in _renamed(former, there):
            if divided:
                writer.write([one for one in changes if isinstance(one, Add)])
                writer.sync()  # a kill must not lose what is deleted from another shard
                changes = [one for one in changes if isinstance(one, Delete)]
            writer.write(changes)
        writer.sync()
        gone = [*gone, *(passed & {moved[new] for new in again})]
        deletions: list[Change] = [Delete(one, vanished=True) for one in gone if one in writer]
        if deletions:
            writer.write(deletions)
        writer.commit()
        empty = ({*there.values()} - moved.keys()) & record.keys()  # a later photo is another one
        writer.remember(
            {one: [Given(own.size) for own in record[one] if not own.deleted] for one in empty}
        )
    return len(there), len(deletions), sorted(again)


def described_again(index: Path, root: Path, ids: Mapping[str, str]) -> dict[str, Json]:
    """The metadata of some images as their photos and the files beside these say it now.

    `ids` are those of the photos, with those that the index has the images under. Only images with
    other metadata than that are returned, and none whose metadata are not of a file.
    """
    found: dict[str, Json] = {}
    former = FormerImages(index)
    for image_id, former_id in ids.items():
        image = former.image(former_id)
        if image is None or size_of(image.metadata) is None or UPLOAD in image.metadata:
            continue
        with suppress(OSError):  # the photo has gone meanwhile
            own = {name: image.metadata.get(name) for name in ("width", "height")}
            said = {**own, **photo_metadata(root / image_id)}
            given = former.given_to(replace(image, metadata=said))
            found[image_id] = with_given(said, given.fields if given else {})
            if found[image_id] == image.metadata:
                del found[image_id]
    return found


def describe(index: Path, root: Path, ids: Iterable[str]) -> int:
    """Write what `described_again` finds; returns how many images have other metadata."""
    with open_writer(index) as writer:  # nobody changes metadata meanwhile
        writer.commit()
        found = described_again(index, root, {one: one for one in ids})
        for image_id, metadata in found.items():
            writer.write([MetadataChange(image_id, metadata)])
        return len(found)


def _renamed(former: FormerImages, moved: Mapping[str, str]) -> Iterator[list[Change]]:
    """Changes of some images at a time."""
    pairs = iter(moved.items())
    while part := list(islice(pairs, AT_ONCE)):
        changes: list[Change] = []
        for new, image in ((new, former.image(one)) for new, one in part):
            assert image is not None  # nobody else writes
            if image.image_id not in moved:  # else another image takes its place
                changes.append(Delete(image.image_id, vanished=True))
            changes.append(Add(replace(image, image_id=new)))
        yield changes


class SyncScope(NamedTuple):
    """A folder of photos and what of it is compared.

    Attributes:
        root: the folder that ids are relative to.
        below: how the ids begin: "" for the whole folder, else a folder in it and a slash.
    """

    root: Path
    below: str

    @property
    def folder(self) -> Path:
        """The folder that is compared."""
        return self.root / self.below


def scope_of(index: Path, photos: Path, built_from: str | None) -> SyncScope:
    """Find out how a folder's photos, which need not exist, are named in an index.

    Photos in the folder that the index was built from, or in one that was compared before, have ids
    relative to that folder; those in another folder have ids relative to it. Raises InputError if
    it is a file, or contains a folder whose photos have ids relative to that.
    """
    if photos.is_file():
        raise InputError(f"{photos} is a file: give the folder of the photos")
    folder = Path(os.path.realpath(photos))  # `resolve` raises for links in a circle
    known = synced_folders(index) + ([Path(os.path.realpath(built_from))] if built_from else [])
    for inner in known:
        if inner != folder and inner.is_relative_to(folder):
            raise InputError(
                f"{photos} contains {inner}, to which ids of photos in {index} are relative: give "
                "that folder, and others beside it one by one"
            )
    roots = [root for root in known if folder.is_relative_to(root)]
    root = max(roots, key=lambda path: len(path.parts), default=folder)
    inside = folder.relative_to(root).as_posix()
    return SyncScope(root, "" if inside == "." else f"{inside}/")

"""The one writer of an index folder: changes become durable, then visible."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from uuid import uuid4

from indexer.answer import Version
from indexer.fields.kinds import check_count
from indexer.manifest import Manifest, check_whole, index_folders, located, owner, shard_names
from indexer.store.changes import Add, Change, Delete, MetadataChange, metadata_of
from indexer.store.commit import LOGS, Commit, log_numbers, log_path, read_commit
from indexer.store.compaction import Compactor
from indexer.store.given import FILE as GIVEN
from indexer.store.given import Record, given_of, open_given, records_of
from indexer.store.images import KnownImages, UnknownImageError, new_content_id, problem_of
from indexer.store.log import ChangeLog, read_changes, read_log
from indexer.store.snapshot import IndexLocation
from sparta.addresses import check_id
from sparta.errors import InputError
from sparta.files import UnsureError, sync, writing
from sparta.json_values import Json, JsonMapping
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer

COMMIT_AT = 10_000  # changes that no commit has
MOST_FIELDS = 1000  # of an image
COMPACT_AT = 4096  # changes in the log; until then searchers hold those images in memory

log = logging.getLogger(__name__)

Position = tuple[int, int]  # number of a log, and bytes of it


class IndexWriter:
    """Writes to an index folder; made by `open_writer`. Safe from any thread.

    A change is in the log once it is written, survives a power cut once it is synced, and is found
    by searchers that are opened or refreshed once it is committed. What a killed writer had written
    to the log, the next one applies. Threads write while another one commits.
    """

    def __init__(self, place: IndexLocation) -> None:
        self._folder = folder = place.folder
        self._shape = place.vocabulary, 2**place.manifest.bits - 1
        # For a commit, and for the log and what is in it alone: who writes needs no commit.
        self._committing, self._logging = RLock(), Lock()
        # Number of the log, and positions in both logs: after each change that nobody was told of,
        # and where these begin.
        self._untold: deque[tuple[int, int, int]] = deque()
        self._failure: OSError | None = None  # after which what was written is cut off
        if not (folder / LOGS).is_dir():  # which says that there is the other record, too
            (folder / GIVEN).touch()
            sync(folder)
            (folder / LOGS).mkdir()
        with ExitStack() as opened:
            found = self._commit = read_commit(folder)
            # Of all commits that follow: a copy of this index has others of the same numbers.
            self._lineage = partial(
                replace, lineage=uuid4().hex, parent=found.lineage, began=found.version
            )
            self._open_log()
            opened.callback(self._log.close)
            self._given = open_given(folder, found.given, (self._log_number, self._log.end))
            opened.callback(self._given.close)
            self._told = self._log_number, self._log.end, self._given.end
            self._compactor = Compactor(place, found.segments, lambda: self._log.check_place())
            opened.callback(self._compactor.close, 0)
            self.commit()
            opened.pop_all()

    def _open_log(self) -> None:
        """Open the newest log, and note what no segment has."""
        commit, folder = self._commit, self._folder
        newest = max([commit.log, *log_numbers(folder)])
        self._log = ChangeLog(log_path(folder, newest), commit.bytes if newest == commit.log else 0)
        self._log_number, self._logged, self._waiting = newest, 0, 0
        whole = Commit(log=newest, bytes=self._log.end)
        later = read_changes(folder, commit.log, commit.bytes, whole)
        self._changes = commit.changes + sum(1 for _ in later)
        self._known = KnownImages(folder, commit.segments)
        for number in range(commit.segments.log, newest + 1):
            end = self._log.end if number == newest else None
            for change in read_log(log_path(folder, number), 0, end):
                self._known.note(number, change)
                self._logged += 1

    def check(self, changes: Sequence[Change]) -> None:
        """Raise InputError, which names the image, if changes cannot be written now."""
        with self._logging:
            self._check(changes)

    def _check(self, changes: Sequence[Change]) -> None:
        there: dict[str, bool] = {}
        fields: set[str] = set()  # that the index lacks
        for change in changes:
            image_id = change.image_id
            # An index may have an image whose id no new one may have, which can be deleted.
            if not (isinstance(change, Delete) and image_id in self):
                check_id(image_id)
            if isinstance(change, MetadataChange) and not there.get(image_id, image_id in self):
                raise InputError(f"{self._folder} has no image {image_id!r}")
            there[image_id] = not isinstance(change, Delete)
            if (metadata := metadata_of(change)) is not None:
                _check_metadata(image_id, metadata)
                if new := metadata.keys() - self._known.fields - fields:
                    check_count(self._known.fields | fields, new, f"image {image_id!r}")
                    fields |= new
            if isinstance(change, Add) and (problem := problem_of(change.image, *self._shape)):
                raise InputError(f"image {image_id!r} cannot be written: {problem}")

    def write(self, changes: Sequence[Change]) -> Position:
        """Write changes to the log, all or none; deletions of images that are not there are none.

        Returns:
            the position to sync.

        Raises:
            InputError: if one cannot be applied; nothing is written.
            OSError: if the disk fails; `take_back` them, and all that nobody was told of.
        """
        changes = [_with_content_id(change) for change in changes]
        with self._logging:
            self._check_usable()
            self._check(changes)
            changes = self._effective(changes)
            if not changes:
                return self._log_number, self._log.end
            position = self._log_number, self._append(changes)
            self._logged += len(changes)
            self._waiting += len(changes)
            self._changes += len(changes)
            for change in changes:
                self._known.note(self._log_number, change)
            self._untold.append((*position, self._given.end))
        return position

    @property
    def full(self) -> bool:
        """Whether so much was written that a commit is due."""
        return self._waiting >= COMMIT_AT

    @property
    def newest(self) -> Commit:
        """The last commit."""
        return self._commit

    def told(self, position: Position | None = None) -> None:
        """Note that changes up to a synced position, or all synced ones, stay whatever happens."""
        with self._logging:
            synced = self._log_number, self._log.synced
            upto = synced if position is None else min(position, synced)
            while self._untold and self._untold[0][:2] <= upto:
                self._told = self._untold.popleft()

    def stays(self, position: Position) -> bool:
        """Whether changes up to a position stay whatever happens, or have been committed."""
        return self._told[:2] >= position

    def take_back(self, failure: OSError) -> None:
        """Cut off what was written and nobody was told of; nothing can be written any more.

        Raises UnsureError if the disk does not allow that: the next writer may apply it.
        """
        with self._committing, self._logging:
            self._failure = self._failure or failure
            number, end, given = self._told
            try:
                if self._untold and number != self._log_number:
                    raise failure  # its log is finished
                if number == self._log_number:
                    self._log.take_back(end, failure)
                self._given.take_back(given, failure)
            except OSError as error:
                raise UnsureError(failure) from error
            finally:
                self._untold.clear()

    def _append(self, changes: Sequence[Change]) -> int:
        """Append changes to the log, and what the user gave by them to its own, or neither."""
        place = self._log_number, self._log.end
        records, now = [], dict[str, JsonMapping | None]()
        for one in changes:
            key = one.image_id
            if given := given_of(one, now[key] if key in now else self._known.metadata(key)):
                records.append(replace(given, place=place).record(key))
            now[key] = metadata_of(one)
        end = self._given.end
        if records:
            self._given.append(records)
        try:
            return self._log.append(changes)
        except OSError:
            self._given.take_back(end)
            raise

    def remember(self, record: Record) -> None:
        """Note what the user gave to images, such as those with another id; raises OSError."""
        if records := records_of(record):
            with self._logging:
                self._given.append(records)
                self._untold.append((self._log_number, self._log.end, self._given.end))

    def _effective(self, changes: Sequence[Change]) -> list[Change]:
        """Changes without deletions of images that are not there when their turn comes."""
        there: dict[str, bool] = {}
        kept = []
        for change in changes:
            image_id, deleted = change.image_id, isinstance(change, Delete)
            if deleted and not there.get(image_id, image_id in self):
                continue
            there[image_id] = not deleted
            kept.append(change)
        return kept

    def sync(self, position: Position | None = None) -> None:
        """Wait until all changes up to a position, or all, survive a power cut; raises OSError."""
        self._check_usable()
        self._given.sync()
        number, end = position or (self._log_number, None)
        if number == self._log_number:  # a finished log is synced
            self._log.sync(end)

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failure

    def commit(self) -> Commit:
        """Make all changes visible to searchers that are opened or refreshed; raises OSError."""
        with self._committing:
            self._check_usable()
            self._log.check_place()
            finished = self._logged >= COMPACT_AT and self._compactor.ready
            return self._commit_all(finished)

    def _commit_all(self, finished: bool) -> Commit:
        """Commit; a finished log is then compacted."""
        if finished:
            self._begin_log()
        with self._logging:
            former, listed = self._commit, self._compactor.listed
            end = self._log_number, self._log.end
            commit = replace(
                former,
                log=end[0],
                bytes=end[1],
                given=self._given.end,
                images=len(self._known),
                changes=self._changes,
                segments=listed,
            )
            if commit == former:
                return former
            self._waiting = 0
        self.sync(end)
        if listed != former.segments:
            with self._logging:
                self._known.follow(listed)
        # No two commits have one version and lineage.
        commit = self._lineage(commit, version=former.version + 1)
        try:
            commit.save(self._folder)
        except UnsureError:
            self.told(end)  # a reader may be at the commit, which needs them
            raise
        self.told(end)
        self._commit = commit
        if finished:
            self._compactor.compact(commit.log)
        if listed != former.segments:
            # Searchers may be about to open the former ones.
            self._compactor.remove_except([former.segments, listed])
        return commit

    def _begin_log(self) -> None:
        """Finish the log, and write what follows to another one."""
        with self._logging:
            self._given.sync()
            self._log.sync()
            former, number = self._log, self._log_number + 1
            self._log = ChangeLog(log_path(self._folder, number))
            self._log_number, self._logged = number, 0
        former.close()

    def merge(self, progress: Progress = no_progress) -> Commit:
        """Make one segment of all images, without deleted ones, and commit it.

        Progress has the stage "columns", in images. Raises OSError if the disk fails.
        """
        with self._committing:
            self._compactor.wait()
            if self._logged or self._compactor.listed.log < self._log_number:
                self._begin_log()
                self._compactor.compact_now(self._commit_all(finished=False).log)
                self._compactor.wait()
            self._compactor.merge_everything(progress)
            return self.commit()

    def tidy(self) -> None:
        """Remove segments that neither the last commit nor Lucene's index needs."""
        with self._committing:
            self._compactor.remove_except([self._commit.segments])

    def __contains__(self, image_id: str) -> bool:
        """Whether the index has an image, with all that has been written."""
        return image_id in self._known

    def __len__(self) -> int:
        """Images at the last commit."""
        return self._commit.images

    def metadata(self, image_id: str) -> Json:
        """An image's metadata, with all that has been written; raises UnknownImageError."""
        metadata = self._known.metadata(image_id)
        if metadata is None:
            raise UnknownImageError(image_id)
        return dict(metadata)

    @property
    def segments_made(self) -> int:
        """Segments made by compacting and merging since the index was opened."""
        return self._compactor.made

    @property
    def in_place(self) -> bool:
        """Whether the folder is still the one that was opened."""
        return self._log.in_place

    def settle(self) -> None:
        """Wait until logs are compacted and segments merged as far as that was due.

        The next commit names what was made.
        """
        self._compactor.wait()

    def close(self) -> None:
        """Commit, wait for a compaction, for merges a few seconds, and close all files."""
        self.commit()
        self._compactor.close()
        try:
            self.commit()
        except OSError as error:  # what was written is committed
            log.warning("%s: its segments stay as they are: %s", self._folder, error)
        self._log.close()
        self._given.close()

    def abandon(self) -> None:
        """Close all files; changes since the last commit stay in the log."""
        self._compactor.close(0)
        self._log.close()
        self._given.close()


def _check_metadata(image_id: str, metadata: JsonMapping) -> None:
    if len(metadata) > MOST_FIELDS:
        has = f"{len(metadata):,} fields, {MOST_FIELDS:,} are allowed"
        raise InputError(f"the metadata of {image_id!r} has {has}: put lists into one field")
    try:
        json.dumps(metadata, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InputError(f"the metadata of {image_id!r} cannot be JSON: {error}") from error


def _with_content_id(change: Change) -> Change:
    """A change whose image does not count as the one that the index was built with."""
    if isinstance(change, Add) and not change.image.content_id:
        return replace(change, image=replace(change.image, content_id=new_content_id()))
    return change


class Writer:
    """Writes to all shards of an index, or to its only one. Safe from any thread.

    Changes of several shards are checked together. They are written shard by shard: a process that
    is killed meanwhile leaves those of the first ones. If the disk fails, what nobody was told of
    is taken back from all, and the writer is of no use; an UnsureError says that it may come.
    """

    def __init__(self, shards: Sequence[IndexWriter]) -> None:
        self._shards = shards
        self._writing, self._syncing = RLock(), RLock()

    @contextmanager
    def all_or_none(self, failures: type[Exception] = OSError) -> Iterator[None]:
        """Take back from all shards what nobody was told of if the block fails."""
        try:
            yield
        except failures as error:
            failure = error if isinstance(error, OSError) else OSError(str(error))
            unsure = None
            with self._syncing:
                for shard in self._shards:
                    try:
                        shard.take_back(failure)
                    except UnsureError as found:
                        unsure = found
            if unsure is not None:
                raise unsure from error
            raise

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

    def write(self, changes: Sequence[Change]) -> dict[int, Position]:
        """Write changes to the log, all or none; deletions of images that are not there are none.

        Returns the positions to sync, by shard. Raises InputError if one cannot be applied, OSError
        if the disk fails; nothing is written.
        """
        with self._writing, self.all_or_none():
            self.check(changes)
            parts = self._divided(changes)
            position = {number: self._shards[number].write(own) for number, own in parts.items()}
            if any(shard.full for shard in self._shards):
                self.commit()
            return position

    def remember(self, record: Record) -> None:
        """Note what the user gave to images; see `IndexWriter.remember`."""
        for image_id, given in record.items():
            self._owner(image_id).remember({image_id: given})

    def stays(self, position: Mapping[int, Position]) -> bool:
        """Whether changes up to positions in some shards stay; see `IndexWriter.stays`."""
        return all(self._shards[number].stays(end) for number, end in position.items())

    def sync(self, position: Mapping[int, Position] | None = None) -> None:
        """Wait until changes survive a power cut: all, up to positions in some shards.

        Raises OSError if the disk fails; they are taken back then.
        """
        wanted = dict.fromkeys(range(len(self._shards))) if position is None else {**position}
        with self._syncing, self.all_or_none():
            for number, end in wanted.items():
                self._shards[number].sync(end)
            for number, end in wanted.items():
                self._shards[number].told(end)

    def commit(self) -> Version:
        """Make all changes visible, shard by shard; a searcher of them has the version.

        Raises OSError if the disk fails: UnsureError if another writer will make them visible.
        """
        commits, changed = list[Commit](), False
        several = self._writing if len(self._shards) > 1 else nullcontext()
        with several, self.all_or_none(Exception):
            for shard in self._shards[1:]:
                shard.sync()
            for shard in self._shards:
                former, failure = shard.newest, None
                try:
                    commits.append(shard.commit())
                    changed = changed or commits[-1] != former
                except OSError as error:
                    changed, failure = changed or isinstance(error, UnsureError), error
                for other in self._shards if changed else ():
                    if other is not shard:  # which may have newer changes
                        other.told()  # all of it or none is in effect
                if failure is not None:
                    raise UnsureError(failure) if changed else failure
        named = enumerate(commits)
        return Version(tuple((number, one.lineage, one.version) for number, one in named))

    def merge(self, progress: Progress = no_progress) -> None:
        """Make one segment of each shard's images; see `IndexWriter.merge`."""
        with self.all_or_none():
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

    def metadata(self, image_id: str) -> Json:
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


@contextmanager
def open_writer(folder: Path, *, yields: bool = False, shard: bool = False) -> Iterator[Writer]:
    """Open an index folder, divided or not, for writing, and commit at the end.

    A log that a killed writer left is applied. If the block fails, what was neither committed nor
    synced is taken back; if it is interrupted, it stays in the log. Raises InputError if the folder
    is not an index, is damaged, is a shard (unless `shard`: who writes to it alone gives it its own
    images), or another process writes it. `yields`: see `sparta.files.writing`.
    """
    if not shard:
        check_whole(folder)
    folder = located(folder).resolve()  # an alias may be switched meanwhile
    with ExitStack() as opened:
        folders = index_folders(folder)
        writer = Writer([opened.enter_context(open_whole(one, yields)) for one in folders])
        if index_folders(folder) != folders:  # while their locks were taken
            raise InputError(f"{folder} was divided anew meanwhile: start again")
        with writer.all_or_none(Exception):
            yield writer
            writer.commit()


@contextmanager
def writing_whole(folder: Path) -> Iterator[ExitStack]:
    """Be the only writer of an index and of all its shards, as `writing`; it need not exist.

    Yields what ends with the block. Raises InputError if it is a shard, or as `writing`.
    """
    check_whole(folder)
    with ExitStack() as opened:
        opened.enter_context(writing(folder))
        for name in shard_names(folder):
            opened.enter_context(writing(located(folder) / name))
        yield opened


@contextmanager
def open_whole(folder: Path, yields: bool = False) -> Iterator[IndexWriter]:
    """As `open_writer`, of an index that is not divided."""
    Manifest.read(folder)  # no lock file beside something else
    with writing(folder, yields=yields):
        if located(folder) != folder:
            raise InputError(f"{folder} was replaced meanwhile: try again")
        place = IndexLocation.of(folder)
        place.manifest.check_vocabulary(folder, TermTokenizer.from_folder(folder).vocabulary_hash)
        writer = IndexWriter(place)
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.abandon()
            raise

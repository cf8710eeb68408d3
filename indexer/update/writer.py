"""The one writer of an index folder: changes become durable, then visible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import Any
from uuid import uuid4

from indexer.columns.live.state import ColumnState, KnownImages
from indexer.columns.live.upkeep import Upkeep
from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.live.commit import Commit, log_numbers, log_path
from indexer.live.given import Record, given_of, open_given, records_of
from indexer.live.history import read_changes
from indexer.live.log import ChangeLog, read_log
from indexer.live.origin import new_origin
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.updater import LuceneUpdater
from indexer.manifest import Manifest, is_sharded
from indexer.parts import LUCENE
from indexer.postings import ImagePostings
from indexer.search.answer import UnknownImageError
from indexer.shards import index_folders
from indexer.update.checks import ChangeCheck
from indexer.update.conversion import make_live
from indexer.update.sharded import ShardsWriter, Writer
from sparta.lock import writing
from sparta.tokenizer import WordPieceTokenizer

COMMIT_AT = 10_000  # changes that wait in memory
AT_ONCE = 512  # images whose postings are read from Lucene
ADDED_AT_ONCE = 128  # images that Lucene is given
COMPACT_AT = 4096  # changes in the log; until then searchers hold those images in memory


class IndexWriter:
    """Writes to an index folder; made by `open_writer`. Safe from any thread.

    A change is in the log once it is written, survives a power cut once it is synced, and is found
    by searchers that are opened or refreshed once it is committed. What a killed writer had
    written to the log, the next one applies. Threads write while another one commits.

    Args:
        folder: of an index, made live.
        vocabulary: [V] terms in id order.
        bits: of an impact.
    """

    def __init__(self, folder: Path, vocabulary: Sequence[str], bits: int) -> None:
        self._folder, self._vocabulary, self._bits = folder, vocabulary, bits
        self._check = ChangeCheck(folder, len(vocabulary), 2**bits - 1)
        # For a commit, and for the log and what is in it alone. Java lets one thread in at a time,
        # and Lucene takes a while to commit: who writes needs neither.
        self._committing, self._logging = RLock(), Lock()
        # Images that were changed since the last commit: before the one that is being made, and
        # after that began.
        self._applying: dict[str, Change] = {}
        self._changed: dict[str, Change] = {}
        with ExitStack() as opened:
            self._lucene = LuceneUpdater(folder / LUCENE, vocabulary)
            opened.callback(self._lucene.abandon)
            with self._read() as index:
                found = Commit.of(index.commit_data, folder)
            self._commit = _begun(found)
            # Of all commits that follow: a copy of this index has others of the same numbers.
            self._lineage = partial(
                replace, lineage=uuid4().hex, parent=found.lineage, began=found.version
            )
            self._open_log()
            opened.callback(self._log.close)
            self._given = open_given(folder, found.given)
            opened.callback(self._given.close)
            self._upkeep = Upkeep(
                folder, len(vocabulary), bits, self._commit.columns, lambda: self._log.check_place()
            )
            opened.callback(self._upkeep.close, 0)
            self.commit()
            opened.pop_all()

    def _open_log(self) -> None:
        """Open the newest log, and note what no commit has."""
        commit, folder = self._commit, self._folder
        newest = max([commit.log, *log_numbers(folder)])
        self._log = ChangeLog(log_path(folder, newest), commit.bytes if newest == commit.log else 0)
        self._log_number, self._logged = newest, 0
        self._known = KnownImages(folder, commit.columns)
        for number in range(ColumnState.open(folder, commit.columns).log, newest + 1):
            end = self._log.end if number == newest else None
            for change in read_log(log_path(folder, number), 0, end):
                self._known.note(number, change)
                self._logged += 1
        whole = Commit(log=newest, bytes=self._log.end)
        for change in read_changes(folder, commit.log, commit.bytes, whole):
            self._note(change)

    def check(self, changes: Sequence[Change]) -> None:
        """Check that changes can be written now.

        Raises:
            InputError: if one cannot be applied.
        """
        with self._logging:
            self._check(changes, self.__contains__)

    def write(self, changes: Sequence[Change]) -> int:
        """Write changes to the log, all or none; deletions of images that are not there are none.

        Returns:
            the position to sync.

        Raises:
            InputError: if one cannot be applied; nothing is written.
            OSError: if the disk fails; whether the changes were written is then unknown.
        """
        changes = [_with_origin(change) for change in changes]
        with self._logging:
            self._check(changes, self.__contains__)
            changes = self._effective(changes)
            if not changes:
                return self._log.end
            position = self._append(changes)
            self._logged += len(changes)
            for change in changes:
                self._known.note(self._log_number, change)
                self._note(change)
            full = len(self._changed) >= COMMIT_AT
        if full:
            self.commit()
        return position

    def _append(self, changes: Sequence[Change]) -> int:
        """Append changes to the log, and what the user gave by them to its own, or neither."""
        found = [(one, given_of(one, self._known.metadata(one.image_id))) for one in changes]
        records = [given.record(one.image_id) for one, given in found if given is not None]
        end = self._given.end
        if records:
            self._given.append(records)
        try:
            return self._log.append(changes)
        except OSError:
            self._given.take_back(end)
            raise

    def remember(self, record: Record) -> None:
        """Note what the user gave to images, such as to those that get another id.

        Raises:
            OSError: if the disk fails.
        """
        if records := records_of(record):
            with self._logging:
                self._given.append(records)

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

    def _note(self, change: Change) -> None:
        """Remember what an image is after a change of the log."""
        image_id = change.image_id
        former = self._changed.get(image_id) or self._applying.get(image_id)
        if isinstance(change, MetadataChange) and isinstance(former, Add):
            change = Add(replace(former.image, metadata=change.metadata))
        self._changed[image_id] = change

    def sync(self, position: int | None = None) -> None:
        """Wait until all changes up to a position, or all, survive a power cut.

        Raises:
            OSError: if the disk fails.
        """
        self._given.sync()
        self._log.sync(position)

    def commit(self) -> Commit:
        """Make all changes visible to searchers that are opened or refreshed from now on.

        Raises:
            OSError: if the disk fails.
        """
        with self._committing:
            self._log.check_place()
            finished = self._logged >= COMPACT_AT and self._upkeep.ready
            if finished:
                self._begin_log()
            with self._logging:
                former, end, state = self._commit, self._log.end, self._upkeep.state
                commit = replace(
                    former, log=self._log_number, bytes=end, columns=state, given=self._given.end
                )
                if former.version and commit == former:
                    return former
                commit = self._next(commit)
                # What a commit that failed should have applied is still there.
                self._applying |= self._changed
                self._changed = {}
            self.sync(end)
            self._apply()
            self._lucene.commit(commit.data())
            self._show(commit)
            if finished:
                self._upkeep.compact(commit.log)
            if state != former.columns:
                # Searchers may be about to open the former ones.
                self._upkeep.remove_except({former.columns, state})
            return commit

    def _next(self, commit: Commit) -> Commit:
        """The same as a commit of its own: no two of Lucene's have one version and lineage."""
        return self._lineage(commit, version=commit.version + 1)

    def _begin_log(self) -> None:
        """Finish the log, and write what follows to another one."""
        with self._logging:
            self._log.sync()
            former, number = self._log, self._log_number + 1
            self._log = ChangeLog(log_path(self._folder, number))
            self._log_number, self._logged = number, 0
        former.close()

    def _show(self, commit: Commit) -> None:
        """Go on from a commit."""
        if commit.columns != self._commit.columns:
            self._known.follow(commit.columns)
        with self._logging:
            self._commit, self._applying = commit, {}

    def _read(self) -> closing[LuceneIndex]:
        """Open what Lucene committed; open for good, it would keep files that merges replaced."""
        return closing(LuceneIndex(self._folder / LUCENE))

    def _apply(self) -> None:
        """Change Lucene, which shows it at the next commit."""
        added: list[ImagePostings] = []
        described: list[MetadataChange] = []
        for change in self._applying.values():
            if isinstance(change, Add):
                added.append(change.image)
            elif isinstance(change, Delete):
                self._lucene.delete(change.image_id)
            else:
                described.append(change)
        for first in range(0, len(added), ADDED_AT_ONCE):
            self._lucene.replace(added[first : first + ADDED_AT_ONCE])
        if described:
            self._describe(described)

    def _describe(self, changes: Sequence[MetadataChange]) -> None:
        """Add images again with other metadata."""
        with self._read() as index:
            for first in range(0, len(changes), AT_ONCE):
                own = changes[first : first + AT_ONCE]
                found = [index.document(change.image_id) for change in own]
                documents = [document for document in found if document is not None]
                images = index.images(documents, self._vocabulary)
                self._lucene.replace(
                    [
                        replace(image, metadata=change.metadata)
                        for image, change in zip(images, own, strict=True)
                    ]
                )

    def __contains__(self, image_id: str) -> bool:
        """Whether the index has an image, with all that has been written."""
        return image_id in self._known

    def __len__(self) -> int:
        """Images at the last commit."""
        with self._read() as index:
            return len(index)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's metadata, with all that has been written.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        metadata = self._known.metadata(image_id)
        if metadata is None:
            raise UnknownImageError(image_id)
        return dict(metadata)

    @property
    def segments_made(self) -> int:
        """Segments of columns made by compacting and merging since the index was opened."""
        return self._upkeep.made

    @property
    def in_place(self) -> bool:
        """Whether the folder is still the one that was opened."""
        return self._log.in_place

    def settle(self) -> None:
        """Wait until columns are compacted and merged as far as that was due at the last commit.

        The next commit names what was made.
        """
        self._upkeep.wait()

    def close(self) -> None:
        """Commit, wait for merges, for those of columns a few seconds, and close all files."""
        self.commit()
        self._upkeep.close()
        self.commit()
        self._lucene.close(self._next(self._commit).data())
        self._log.close()
        self._given.close()

    def abandon(self) -> None:
        """Close all files; changes since the last commit stay in the log.

        Where another index has taken the place of this one, nothing of it is touched.
        """
        in_place = self.in_place
        self._upkeep.close(0)
        try:
            self._lucene.abandon(in_place)
        finally:
            self._log.close()
            self._given.close()


def _with_origin(change: Change) -> Change:
    """A change whose image does not count as the one that the index was built with."""
    if isinstance(change, Add) and not change.image.origin:
        return replace(change, image=replace(change.image, origin=new_origin()))
    return change


def _begun(commit: Commit) -> Commit:
    """The commit an index begins with when it is first written to."""
    return commit if commit.log else replace(commit, log=1)


@contextmanager
def open_writer(folder: Path) -> Iterator[Writer]:
    """Open an index folder, divided or not, for writing, and commit at the end.

    An index as it was built is made live first. A log that a killed writer left is applied.

    Args:
        folder: the index folder.

    Raises:
        InputError: if the folder is not an index, is damaged, or another process writes it.
    """
    folder = folder.resolve()  # an alias may be switched meanwhile
    if not is_sharded(folder):
        with _opened(folder) as writer:
            yield writer
        return
    with ExitStack() as opened:
        yield ShardsWriter([opened.enter_context(_opened(one)) for one in index_folders(folder)])


@contextmanager
def _opened(folder: Path) -> Iterator[IndexWriter]:
    """Open an index that is not divided."""
    Manifest.read(folder)  # no lock file beside something else
    with writing(folder):
        writer = _begin(folder)
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.abandon()
            raise


def apply_log(folder: Path) -> None:
    """Apply what a killed writer left in the log of a live index; the caller holds its lock.

    Raises:
        InputError: if the index is damaged.
    """
    _begin(folder).close()


def _begin(folder: Path) -> IndexWriter:
    manifest = make_live(folder)
    tokenizer = WordPieceTokenizer.from_folder(folder)
    manifest.check_vocabulary(folder, tokenizer.vocabulary_hash)
    return IndexWriter(folder, tokenizer.vocabulary, manifest.bits)

"""The one writer of an index folder: changes become durable, then visible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.live.commit import Commit, log_path
from indexer.live.log import ChangeLog, read_log
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.updater import LuceneUpdater
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from indexer.postings import ImagePostings
from indexer.search.api import UnknownImageError
from indexer.update.checks import ChangeCheck
from indexer.update.conversion import make_live
from sparta.lock import writing
from sparta.tokenizer import WordPieceTokenizer

COMMIT_AT = 10_000  # changes that wait in memory
COMPACT_AT = 4096  # changes in the log; until then searchers hold those images in memory


class IndexWriter:
    """Writes to an index folder; made by `open_writer`. Safe from any thread.

    A change is in the log once it is written, survives a power cut once it is synced, and is found
    by searchers that are opened or refreshed once it is committed. What a killed writer had
    written to the log, the next one applies.

    Args:
        folder: of an index, made live.
        vocabulary: [V] terms in id order.
        bits: of an impact.
    """

    def __init__(self, folder: Path, vocabulary: Sequence[str], bits: int) -> None:
        self._folder, self._vocabulary, self._bits = folder, vocabulary, bits
        self._check = ChangeCheck(folder, len(vocabulary), 2**bits - 1)
        self._lock = RLock()
        # What was changed since the last commit: images, or None where one was deleted.
        self._changed: dict[str, ImagePostings | None] = {}
        with ExitStack() as opened:
            self._lucene = LuceneUpdater(folder / LUCENE, vocabulary)
            opened.callback(self._lucene.abandon)
            self._index = LuceneIndex(folder / LUCENE)
            opened.callback(self._index.close)
            self._commit = _begun(Commit.of(self._index.commit_data, folder))
            path = log_path(folder, self._commit.log)
            self._log = ChangeLog(path, self._commit.bytes)
            opened.callback(self._log.close)
            self._logged = sum(1 for _ in read_log(path, 0, self._commit.bytes))
            for change in read_log(path, self._commit.bytes, self._log.end):
                self._apply(change)
            self.commit()
            opened.pop_all()

    def write(self, changes: Sequence[Change]) -> int:
        """Write changes to the log, all or none.

        Returns:
            the position to sync.

        Raises:
            InputError: if one cannot be applied; nothing is written.
            OSError: if the disk fails; whether the changes were written is then unknown.
        """
        with self._lock:
            self._check(changes, self.__contains__)
            position = self._log.append(changes)
            for change in changes:
                self._apply(change)
            if len(self._changed) >= COMMIT_AT:
                self.commit()
            return position

    def sync(self, position: int | None = None) -> None:
        """Wait until all changes up to a position, or all, survive a power cut.

        Raises:
            OSError: if the disk fails.
        """
        self._log.sync(position)

    def commit(self) -> Commit:
        """Make all changes visible to searchers that are opened or refreshed from now on.

        Raises:
            OSError: if the disk fails.
        """
        with self._lock:
            if self._commit.version and self._commit.bytes == self._log.end:
                return self._commit
            self._log.sync()
            commit = replace(self._commit, version=self._commit.version + 1, bytes=self._log.end)
            log = self._log
            if self._logged >= COMPACT_AT:
                commit, log = self._compacted(commit)
            self._lucene.commit(commit.data())
            if log is not self._log:
                self._log.close()
                self._log, self._logged = log, 0
            self._commit = commit
            self._changed.clear()
            newer = self._index.refreshed()
            assert newer is not None
            self._index.close()
            self._index = newer
            return commit

    def _compacted(self, commit: Commit) -> tuple[Commit, ChangeLog]:
        """A commit whose images are all in column segments, with an empty log."""
        # numba takes a second to load, and few writers get here.
        from indexer.columns.live.compaction import compact
        from indexer.columns.live.snapshot import LiveColumns
        from indexer.columns.live.state import next_number, remove_unlisted

        self._remove_older_logs()
        remove_unlisted(self._folder, commit.columns)
        before = LiveColumns.open(self._folder, commit.columns, len(self._vocabulary), self._bits)
        number = next_number(self._folder)
        compact(self._folder, before.after(read_log(self._log.path, 0, commit.bytes)), number)
        log = ChangeLog(log_path(self._folder, commit.log + 1))
        return replace(commit, log=commit.log + 1, bytes=0, columns=number), log

    def _remove_older_logs(self) -> None:
        """Remove logs that only commits before the last one needed."""
        for path in self._log.path.parent.glob("log-*"):
            if path != self._log.path:
                path.unlink()

    def __contains__(self, image_id: str) -> bool:
        """Whether the index has an image, with all that has been written."""
        with self._lock:
            if image_id in self._changed:
                return self._changed[image_id] is not None
            return self._index.document(image_id) is not None

    def __len__(self) -> int:
        """Images at the last commit."""
        return len(self._index)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's metadata, with all that has been written.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        with self._lock:
            if image_id in self._changed:
                image = self._changed[image_id]
                if image is None:
                    raise UnknownImageError(image_id)
                return image.metadata
            document = self._index.document(image_id)
            if document is None:
                raise UnknownImageError(image_id)
            return self._index.stored(document).metadata

    def _apply(self, change: Change) -> None:
        """Change Lucene, which shows it at the next commit."""
        self._logged += 1
        if isinstance(change, Delete):
            self._lucene.delete(change.image_id)
            self._changed[change.image_id] = None
            return
        image = change.image if isinstance(change, Add) else self._with_metadata(change)
        self._lucene.replace(image)
        self._changed[image.image_id] = image

    def _with_metadata(self, change: MetadataChange) -> ImagePostings:
        """The image with its postings and other metadata."""
        image = self._changed.get(change.image_id)
        if image is None:
            document = self._index.document(change.image_id)
            assert document is not None
            image = self._index.image(document, self._vocabulary)
        return replace(image, metadata=change.metadata)

    def close(self) -> None:
        """Commit, wait for merges, and close all files."""
        with self._lock:
            self.commit()
            self._lucene.close()
            self._close_files()

    def abandon(self) -> None:
        """Close all files; changes since the last commit stay in the log."""
        self._lucene.abandon()
        self._close_files()

    def _close_files(self) -> None:
        self._index.close()
        self._log.close()


def _begun(commit: Commit) -> Commit:
    """The commit an index begins with when it is first written to."""
    return commit if commit.log else replace(commit, log=1)


@contextmanager
def open_writer(folder: Path) -> Iterator[IndexWriter]:
    """Open an index folder for writing, and commit at the end.

    An index as it was built is made live first. A log that a killed writer left is applied.

    Args:
        folder: the index folder.

    Raises:
        InputError: if the folder is not an index, is damaged, has dense parts, or another process
            writes it.
    """
    Manifest.read(folder)  # no lock file beside something else
    with writing(folder):
        manifest = make_live(folder)
        tokenizer = WordPieceTokenizer.from_folder(folder)
        manifest.check_vocabulary(folder, tokenizer.vocabulary_hash)
        writer = IndexWriter(folder, tokenizer.vocabulary, manifest.bits)
        try:
            yield writer
        except BaseException:
            writer.abandon()
            raise
        writer.close()

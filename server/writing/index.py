"""The index as the writer process changes it: many requests at once, one commit for all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.answer import Version
from indexer.encoding.impacts import WeightReader
from indexer.manifest import UPLOAD, index_folders, located, owner
from indexer.postings import ImagePostings
from indexer.state import index_version, place_of
from indexer.store.changes import Add, Change, Delete, MetadataChange, Sent
from indexer.store.given import with_given
from indexer.update.writer import Position, Writer, open_writer
from server.photo_files import check_photo, keep_upload, upload_path
from server.writing.bodies import Image
from server.writing.forward import Board
from sparta.addresses import check_id
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.files import UnsureError, is_awaited
from sparta.json_values import Json
from sparta.tokenizer import TermTokenizer

if TYPE_CHECKING:
    from indexer.update.images import ResidentEncoder


class PhotoEncoder:
    """As `ResidentEncoder`, safe from any thread; the index itself is not opened."""

    def __init__(self, folder: Path, models: Sequence[str]) -> None:
        self._folder, self._models = folder, models
        self._encoding = Lock()

    def photo(self, image_id: str, path: Path) -> ImagePostings:
        """The postings of a photo; see `ResidentEncoder.photo`."""
        with self._encoding:
            return self._encoder.photo(image_id, path)

    def features(self, image: ImageFeatures) -> ImagePostings:
        """The postings of an image with features; see `ResidentEncoder.features`."""
        with self._encoding:
            return self._encoder.features(image)

    def impacts(self, photo: bytes) -> dict[str, int]:
        """The terms of a photo with their impacts; it is not kept.

        Raises:
            InputError: if it cannot be used, or the index was built from something else.
        """
        check_photo(photo)
        with NamedTemporaryFile(prefix="visualsparta-photo-") as file:
            file.write(photo)
            file.flush()
            image = self.photo("photo", Path(file.name))
        terms = (self._vocabulary[number] for number in image.terms)
        return dict(zip(terms, image.impacts.tolist(), strict=True))

    @cached_property
    def _vocabulary(self) -> Sequence[str]:
        return TermTokenizer.from_folder(self._folder).vocabulary

    @cached_property
    def _encoder(self) -> ResidentEncoder:
        # What it imports, a server that is sent term weights need not have installed.
        from indexer.update.images import ResidentEncoder

        return ResidentEncoder(self._folder, self._models)


COMMIT_EVERY = 0.5  # seconds a change waits at most until it can be found
KEPT = 0.5  # seconds, and as many as opening took, that an index is kept while others wait for it

log = logging.getLogger(__name__)


class Committed(NamedTuple):
    """A commit."""

    version: Version  # of the index
    number: int  # on the board


class Written(NamedTuple):
    """Changes to wait for, with all before them."""

    number: int  # of changes, since the index was opened
    position: Mapping[int, Position]  # in the logs of shards

    def then(self, later: Written) -> Written:
        """Both."""
        return Written(later.number, {**self.position, **later.position})


NOTHING = Written(0, {})


class WritableIndex:
    """Encodes and writes changes; safe from any thread.

    A change is acknowledged when it is synced or committed. A thread commits what has been written,
    at once if somebody waits for it: changes that come meanwhile are in the next commit together.

    Attributes:
        place: of the index; see `place_of`.

    Raises:
        InputError: if the index cannot be written, as while another process does.
        OSError: if its files cannot be.
    """

    def __init__(self, folder: Path, encoder: PhotoEncoder, board: Board) -> None:
        folder = located(folder).resolve()  # an alias may be switched meanwhile
        began = time.monotonic()
        self._folder, self.place, self._board = folder, place_of(folder), board
        self._folders = index_folders(folder)
        self._opened = ExitStack()
        self._writer: Writer = self._opened.enter_context(
            open_writer(
                folder, yields=True, shard=True
            )  # who opens a shard gives it its own images
        )
        first = self._folders[0]  # shards have one vocabulary and scale
        vocabulary = TermTokenizer.from_folder(first).vocabulary
        self._read_weights, self._encoder = WeightReader(first, vocabulary), encoder
        self._writing, self._keeping = Lock(), Lock()
        self._changed = Condition()
        # Changes, since the index was opened: kept are those that somebody was told of.
        self._written = self._committed = self._kept = 0
        self._waiting = self._merged = 0
        self._newest = Committed(self._writer.commit(), board.committed())
        self._failure: OSError | None = None
        self._committing = self._closed = False
        self._kept_until = 2 * time.monotonic() - began + KEPT
        self._committer = Thread(target=self._commit_all, name="commits", daemon=True)
        self._committer.start()

    def encode(self, image_id: str, body: Image) -> Add:
        """The change that adds an image with its metadata; a photo is kept.

        Raises:
            InputError: if it cannot be used.
            OSError: if the photo cannot be kept.
        """
        check_id(image_id)  # before a photo is kept
        image, sent = self._encode(image_id, body)
        metadata = {**image.metadata, **body.metadata}
        return Add(replace(image, metadata=metadata), body.metadata, sent)

    def _encode(self, image_id: str, body: Image) -> tuple[ImagePostings, Sent]:
        if body.terms is not None:
            image = self._read_weights(image_id, body.terms)
            return replace(image, metadata={UPLOAD: ""}), "terms"
        if body.features is not None:
            image = self._encoder.features(body.features.record(image_id))
            return replace(image, metadata={**image.metadata, UPLOAD: ""}), "features"
        assert body.photo is not None
        folder = self._folders[owner(image_id, len(self._folders))]
        name = keep_upload(folder, body.photo)
        path = upload_path(folder, name)
        assert path is not None
        image = self._encoder.photo(image_id, path)
        return replace(image, metadata={**image.metadata, UPLOAD: name}), "photo"

    def metadata(self, image_id: str) -> Json:
        """An image's metadata, with all that has been written; raises UnknownImageError."""
        return self._writer.metadata(image_id)

    def write(
        self, changes: Sequence[Change], check: Callable[[], None] = lambda: None
    ) -> tuple[list[bool], Written]:
        """Write changes, all or none.

        Nobody writes between `check`, which may raise, and the changes.

        Returns:
            whether each image was there before, and what to `keep` or `wait` for.

        Raises:
            InputError: if one cannot be applied.
            OSError: if the disk fails.
        """
        with self._writing:
            check()
            there = self._there(changes)
            # What the index lacks needs no id that an image may have.
            changes = [
                change
                for change, known in zip(changes, there, strict=True)
                if known or not isinstance(change, Delete)
            ]
            return there, self._append(changes)

    def _append(self, changes: Sequence[Change]) -> Written:
        """Write changes to the log."""
        position = self._guarded(lambda: self._writer.write(changes))
        self._written += len(changes)
        deleted = sum(isinstance(change, Delete) for change in changes)
        self._board.count(images_written=len(changes) - deleted, images_deleted=deleted)
        return Written(self._written, position)

    def update(
        self, image_id: str, fields: Json, check: Callable[[], None] = lambda: None
    ) -> tuple[Json, Written]:
        """Change fields of an image's metadata, as RFC 7396 merges objects: null removes a field.

        Nobody writes between `check`, which may raise, and the change.

        Returns:
            the metadata, and what to `keep` or `wait` for.

        Raises:
            UnknownImageError: if the index lacks the image.
            InputError: if the metadata cannot be written.
            OSError: if the disk fails.
        """
        with self._writing:
            check()
            metadata = with_given(self._writer.metadata(image_id), fields)
            return metadata, self._append([MetadataChange(image_id, metadata, fields)])

    def keep(self, change: Written) -> None:
        """Wait until a change survives a power cut; raises OSError if the disk fails."""
        with self._keeping:  # threads that wait share one sync
            if self._kept < change.number:
                last = self._written
                try:
                    self._guarded(self._writer.sync)
                    self._kept = last
                except OSError:
                    if not self._writer.stays(change.position):
                        raise

    def wait(self, change: Written) -> Committed:
        """Wait until a change is committed.

        Returns:
            the commit.

        Raises:
            UnsureError: if the disk fails, and the change may come later.
            OSError: if the disk fails, and the change was taken back.
        """
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                while self._committed < change.number:
                    if self._failure is not None and not self._committing:
                        stays = self._writer.stays(change.position)
                        raise UnsureError(self._failure) if stays else self._failure
                    self._changed.wait()
            finally:
                self._waiting -= 1
            return self._newest

    def _there(self, changes: Sequence[Change]) -> list[bool]:
        """Whether the index has each image, with the changes before it."""
        after: dict[str, bool] = {}
        found = []
        for change in changes:
            known = after.get(change.image_id)
            found.append(change.image_id in self._writer if known is None else known)
            after[change.image_id] = not isinstance(change, Delete)
        return found

    def _commit_all(self) -> None:
        while not self._closed:
            with self._changed:
                self._changed.wait_for(self._is_urgent, COMMIT_EVERY)
                self._committing = self._committed < self._written and self._failure is None
            if self._committing:
                self._commit()

    def _is_urgent(self) -> bool:
        wanted = self._waiting > 0 and self._committed < self._written
        return self._closed or (wanted and self._failure is None)

    def _commit(self) -> None:
        number, start = self._written, time.perf_counter()
        try:
            version = self._guarded(self._writer.commit)
        except OSError as error:
            log.warning("%s: a commit failed: %s", self._folder, error)
        except Exception as error:  # a defect: who waits is told of it, too, and not left waiting
            log.exception("%s: a commit failed", self._folder)
            self._failure = OSError(f"a commit failed: {error}")
        else:
            merged = self._writer.segments_made
            self._board.count(
                commits=1,
                commit_seconds=time.perf_counter() - start,
                segments_merged=merged - self._merged,
            )
            self._merged = merged
            newest = Committed(version, self._board.committed())
            with self._changed:
                self._committed, self._newest = number, newest
        with self._changed:
            self._committing = False
            self._changed.notify_all()

    def _guarded(self, task: Any) -> Any:
        """Do something with the writer, which is of no use after a disk has failed."""
        self._check()
        try:
            return task()
        except OSError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            raise

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def serves(self, folder: Path) -> bool:
        """Whether it is the index that a path leads to, and the disk has not failed."""
        return self._failure is None and self.is_at(folder)

    def version_of(self, commit: Version) -> str:
        """As answers name it; see `Backends.version_of`."""
        return commit.of(index_version(self._folder))

    def is_due(self, idle: bool) -> bool:
        """Whether it is another writer's turn, which waits; at once if nobody uses this one."""
        kept = not idle and time.monotonic() < self._kept_until
        return not kept and any(is_awaited(folder) for folder in self._folders)

    def is_at(self, folder: Path) -> bool:
        """Whether it is the index that a path leads to, neither a copy nor what was moved away."""
        try:
            return place_of(folder) == self.place and self._writer.in_place
        except (InputError, OSError):  # one is being replaced
            return False

    def close(self) -> None:
        """Commit, and close all files; after a failure, the log keeps what is not committed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._committer.join()
        failure = self._failure
        if failure is None and not self._writer.in_place:
            failure = OSError(f"{self._folder} was moved away or replaced")
        if failure is not None:
            self._opened.__exit__(type(failure), failure, failure.__traceback__)
        else:
            self._opened.close()

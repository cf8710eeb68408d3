"""Pushes an index to Milvus: all of it, or what has changed since."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from indexer.manifest import Manifest, located
from indexer.milvus.collection import (
    Collection,
    Marker,
    alias_of,
    check_exact,
    collection_name,
    key_of,
    row_of,
    switch_alias,
)
from indexer.milvus.connection import Milvus
from indexer.state import VERSION_DIGITS
from indexer.store.commit import ReplacedError
from indexer.store.log import read_changes
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.progress import Notice, Progress, no_progress

SETTLING = 3.0  # seconds until a server counts what it has acknowledged
AT_ONCE = 256  # images in one call; one call waits for the one before

Some = TypeVar("Some")
EVERY = 1.0  # seconds from one look to the next


@dataclass(frozen=True)
class Pushed:
    """What a push did."""

    collection: str  # that has the images
    images: int  # in it
    written: int  # images that were written, or written again
    deleted: int  # images that the index does not have any more
    switched: bool  # whether the alias names the collection; False if the server has no aliases
    former: list[str]  # other collections of the name


def build_version(folder: Path) -> str:
    """Names the build of an index: the same after images were written to it.

    Raises InputError if the folder is not an index.
    """
    values = asdict(Manifest.read(folder))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    return digest.hexdigest()[:VERSION_DIGITS]


def push(
    folder: Path, milvus: Milvus, name: str, drop: bool = False, progress: Progress = no_progress
) -> Pushed:
    """Make the collection NAME_VERSION equal to an index, then let the alias NAME name it.

    What the collection has already, as of an interrupted push, is not written again, unless it has
    changed since. The version is that of the index as it was built. If `drop`, the other
    collections of the name are deleted at the end. Progress has the stage "push", in images.

    Raises InputError if the index is damaged, was replaced meanwhile, or has an image that Milvus
    cannot store; the server's scores are not exact; or a call fails.
    """
    folder, name = located(folder).resolve(), alias_of(name)
    version = build_version(folder)
    snapshot = Snapshot.open(folder)
    collection = Collection(milvus, collection_name(name, version), snapshot.vocabulary)
    if not collection.exists():
        check_exact(milvus, name)
        collection.create()
    if build_version(folder) != version:
        raise InputError(f"{folder} was replaced while it was opened: start again")
    done = Update(folder, snapshot, collection).all(progress)
    switched = switch_alias(milvus, name, collection.name)
    known = re.compile(rf"{name}_[0-9a-f]{{{VERSION_DIGITS}}}").fullmatch
    former = sorted({*filter(known, milvus.call("list_collections"))} - {collection.name})
    for other in former if drop else ():
        milvus.call("drop_collection", other)
    return Pushed(collection.name, len(snapshot), *done, switched, [] if drop else former)


class Update:
    """Brings a collection up to date with one commit of an index."""

    def __init__(self, folder: Path, snapshot: Snapshot, collection: Collection) -> None:
        self._folder, self._snapshot, self._collection = folder, snapshot, collection
        self._kinds = snapshot.kinds

    def all(self, progress: Progress = no_progress) -> tuple[int, int]:
        """Compare all ids, write what is missing or has changed, and delete what is left over.

        Returns how many images were written and deleted. Raises InputError if the collection has
        another number of images afterwards.
        """
        collection, commit, images = self._collection, self._snapshot.commit, self._snapshot
        documents = images.live_documents().tolist()
        wanted = {key_of(images.stored(one).image_id): one for one in documents}
        changed = self._changed(marker := collection.marker())
        present = set(collection.keys())
        right = set[str]() if changed is None else present - changed
        since = commit if marker is None or changed is None else marker.commit
        collection.mark(Marker.of(since, complete=False))
        documents = [document for key, document in wanted.items() if key not in right]
        done = len(wanted) - len(documents)
        progress("push", done, len(wanted))
        for some in _parts(documents, AT_ONCE):
            self._write(some)
            done += len(some)
            progress("push", done, len(wanted))
        left = sorted(present - wanted.keys())
        self._delete(left)
        if (found := self._settled(len(wanted))) != len(wanted):
            raise InputError(
                f"{collection.milvus.uri}: the collection {collection.name} has {found:,} images "
                f"instead of {len(wanted):,}: push it again, with nobody else writing to it"
            )
        collection.mark(Marker.of(commit, complete=True))
        return len(documents), len(left)

    def _settled(self, wanted: int) -> int:
        """How many images the collection has, once these are all or enough time has passed.

        A busy server may count rows a moment after it acknowledged them.
        """
        end = time.monotonic() + SETTLING
        while (found := self._collection.images()) != wanted and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def changes(self) -> tuple[int, int]:
        """Write and delete what has changed since the last time, without comparing the rest.

        Returns how many images were written and deleted.
        """
        changed = self._changed(self._collection.marker())
        if changed is None:
            return self.all()
        documents, deleted = [], []
        for key in sorted(changed):
            document = self._snapshot.document(bytes.fromhex(key).decode())
            if document is None:
                deleted.append(key)
            else:
                documents.append(document)
        for some in _parts(documents, AT_ONCE):
            self._write(some)
        self._delete(deleted)
        self._collection.mark(Marker.of(self._snapshot.commit, complete=True))
        return len(documents), len(deleted)

    def _changed(self, marker: Marker | None) -> set[str] | None:
        """Keys of the images that may have changed since a marker; None if these are not known."""
        commit = self._snapshot.commit
        if marker is None or not commit.continues(marker.commit):
            return None
        since = marker.commit
        try:
            changes = list(read_changes(self._folder, since.log, since.bytes, commit))
        except InputError:
            return None  # that log was removed
        return {key_of(change.image_id) for change in changes}

    def _write(self, documents: Sequence[int]) -> None:
        images, terms = self._snapshot.images(documents), self._snapshot.vocabulary
        self._collection.upsert([row_of(one, self._kinds, terms) for one in images])

    def _delete(self, keys: Sequence[str]) -> None:
        for some in _parts(keys, AT_ONCE):
            self._collection.delete(some)


def _parts(things: Sequence[Some], size: int) -> Iterator[Sequence[Some]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def follow(
    folder: Path,
    milvus: Milvus,
    name: str,
    done: Callable[[Pushed], None],
    notice: Notice,
    progress: Progress = no_progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Push an index, and what is written to it, until interrupted.

    An index that is built again is pushed as a whole, into a collection of its version; until that
    is complete the alias names the former one, which stays as it is. What prevents a round, such as
    a server that does not answer, is shown once, and tried again. `done` gets what each push of all
    did, such as the first one, and `notice` a line for every other round that wrote something, and
    for every problem.
    """
    problem = ""
    while True:
        try:
            done(push(folder, milvus, name, progress=progress))
            problem = ""
            _follow_version(folder, milvus, name, notice, pause)
        except (InputError, OSError) as error:
            if str(error) != problem:
                notice(str(error))
            problem = str(error)
        pause(EVERY)


def _follow_version(
    folder: Path, milvus: Milvus, name: str, notice: Notice, pause: Callable[[float], None]
) -> None:
    """Push what is written to an index until it is built again."""
    index = located(folder).resolve()
    version = build_version(index)
    snapshot = Snapshot.open(index)
    collection = Collection(milvus, collection_name(name, version), snapshot.vocabulary)
    while located(folder).resolve() == index and build_version(index) == version:
        marker = collection.marker()
        if marker is None or not marker.complete:
            return  # somebody dropped it, or pushes it too
        if marker != Marker.of(snapshot.commit, complete=True):
            written, deleted = Update(index, snapshot, collection).changes()
            state = f"commit {snapshot.commit.version:,}"
            notice(f"{state}: {written:,} images written, {deleted:,} deleted")
        pause(EVERY)
        try:
            newer = snapshot.refreshed()
            snapshot = snapshot if newer is None else newer  # one without images is false
        except ReplacedError:
            return

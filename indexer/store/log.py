"""The change log of an index: append-only, synced before a write is acknowledged.

A record is a header and changes in Arrow. The header has a CRC-32 of its own and one of the
changes, and says up to which position the log was synced when the record was appended. So what a
killed writer or a power cut left, an unfinished record at the end, is told from damage: nothing
after the last sync was acknowledged.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple
from zlib import crc32

from indexer.store.changes import NOT_CHANGES, Change, pack_changes, unpack_changes
from indexer.store.commit import Commit, log_numbers, log_path
from sparta.errors import InputError
from sparta.files import sync

MAGIC = b"VSL2"
# Magic, bytes of the changes, position of the last sync, CRC-32 of the changes.
_FIELDS = struct.Struct("<4sIQI")
_CHECKSUM = struct.Struct("<I")  # of these fields
HEADER_BYTES = _FIELDS.size + _CHECKSUM.size


class ChangeLog:
    """A log open for appending, by one writer. Safe from any thread.

    What an earlier writer left unfinished at the end is cut off, and a record that cannot be
    written whole is taken back. After a sync that failed, it is unknown what is on the disk, and
    every later call fails but `take_back`. A sync fails, too, once another file is at the path, as
    after the folder of the index was moved. `synced` is the position up to which all is known to be
    synced, such as a commit's. Raises InputError if the file is damaged, or missing and something
    was synced.
    """

    def __init__(self, path: Path, synced: int = 0) -> None:
        self.path = path
        exists = path.exists()
        if synced and not exists:
            raise _missing(path)
        self._end = whole_end(path, synced) if exists else 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._appending, self._syncing = Lock(), Lock()
        self._failure: OSError | None = None
        os.ftruncate(self._file, self._end)
        os.fsync(self._file)
        if not exists:
            sync(path.parent)
        self._synced = self._end

    @property
    def end(self) -> int:
        """Position after the last record."""
        return self._end

    @property
    def synced(self) -> int:
        """Position up to which all is on the disk."""
        return self._synced

    def append(self, changes: Sequence[Change]) -> int:
        """Append changes as one record, which is read whole or not at all.

        Returns the position after it, for `sync`. Raises OSError if it cannot be written.
        """
        payload = pack_changes(changes)
        with self._appending:
            self._check()
            data = _header(payload, self._synced) + payload
            try:
                _write(self._file, data)
            except OSError as error:
                self._failure = error  # for good, unless it is taken back
                os.ftruncate(self._file, self._end)
                self._failure = None
                raise
            self._end += len(data)
            return self._end

    def take_back(self, position: int, failure: OSError | None = None) -> None:
        """Cut off what was appended after a position; after a failure, every later call fails.

        Raises OSError if the disk does not say that it is cut off.
        """
        with self._syncing, self._appending:
            self._failure = failure or self._failure
            if position < self._end:
                self._end, self._synced = position, min(self._synced, position)
                os.ftruncate(self._file, position)
                os.fsync(self._file)

    def sync(self, position: int | None = None) -> None:
        """Wait until the log is on the disk up to a position, or whole; raises OSError.

        Threads that wait at the same time share one sync.
        """
        wanted = self._end if position is None else position
        with self._syncing:
            if self._synced >= wanted:
                return
            self._check()
            end = self._end
            try:
                os.fsync(self._file)
                self.check_place()
            except OSError as error:
                self._failure = error
                raise
            self._synced = end

    def _check(self) -> None:
        if self._failure is not None:
            raise OSError(f"{self.path} could not be synced before: {self._failure}")

    def check_place(self) -> None:
        """Raise OSError unless readers of the index find what is written here."""
        if not self.in_place:
            raise OSError(f"{self.path} was replaced while it was written to")

    @property
    def in_place(self) -> bool:
        """Whether the path still leads to the file."""
        try:
            return os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:  # nothing is there, or this was closed
            return False

    def close(self) -> None:
        """Close the file; threads may still wait for what was synced before."""
        with self._syncing:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1  # another file will have the number


def read_log(path: Path, start: int = 0, end: int | None = None) -> Iterator[Change]:
    """The changes between two positions of a log, in order; None for its end.

    Positions are after records. Raises InputError if the log is damaged or cut off between them.
    """
    for _, changes in read_records(path, start, end):
        yield from changes


def read_records(
    path: Path, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, list[Change]]]:
    """The records between two positions of a log: where each begins, and its changes."""
    if end is not None and start >= end:  # of an index that nobody has written to, without a log
        return
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise _missing(path) from error
    with file:
        last = os.fstat(file.fileno()).st_size if end is None else end
        while start < last:
            record = _read(file, start)
            if record is None or record.end > last:
                raise _damaged(path, start)
            try:
                changes = list(unpack_changes(record.payload))
            except NOT_CHANGES as error:
                raise _damaged(path, start) from error
            yield start, changes
            start = record.end


def read_changes(index: Path, log: int, start: int, commit: Commit) -> Iterator[Change]:
    """The changes from a position in a log up to a commit, in order, from one log or several.

    The position is after some record of log number `log`. Raises InputError if a log is missing or
    damaged.
    """
    for number in range(log, commit.log + 1):
        end = commit.bytes if number == commit.log else None
        yield from read_log(log_path(index, number), start if number == log else 0, end)


def with_written(index: Path, commit: Commit) -> Commit:
    """A commit with all that was written to the logs after it, as the next writer commits it.

    Raises InputError if the newest log is damaged.
    """
    newest = max([commit.log, *log_numbers(index)])
    path, synced = log_path(index, newest), commit.bytes if newest == commit.log else 0
    end = whole_end(path, synced) if path.exists() else synced
    return replace(commit, log=newest, bytes=end)


class _LogRecord(NamedTuple):
    synced: int
    payload: bytes
    end: int


def _header(payload: bytes, synced: int) -> bytes:
    fields = _FIELDS.pack(MAGIC, len(payload), synced, crc32(payload))
    return fields + _CHECKSUM.pack(crc32(fields))


def _read(file: BinaryIO, position: int) -> _LogRecord | None:
    """The record at a position, None if there is no whole one."""
    file.seek(position)
    header = file.read(HEADER_BYTES)
    fields = header[: _FIELDS.size]
    if len(header) < HEADER_BYTES or header[_FIELDS.size :] != _CHECKSUM.pack(crc32(fields)):
        return None
    magic, size, synced, checksum = _FIELDS.unpack(fields)
    payload = file.read(size)
    if magic != MAGIC or len(payload) < size or crc32(payload) != checksum:
        return None
    return _LogRecord(synced, payload, position + HEADER_BYTES + size)


def whole_end(path: Path, synced: int = 0) -> int:
    """The position after the last whole record.

    Raises InputError if something before is damaged: a part that was synced.
    """
    position = 0
    with path.open("rb") as file:
        while record := _read(file, position):
            position = record.end
        if position < max(synced, _synced_later(file, position)):
            raise _damaged(path, position)
    return position


def check_tail(path: Path) -> None:
    """Raise InputError if what follows the last whole record is no unfinished one but damage."""
    end = whole_end(path)
    with path.open("rb") as file:
        file.seek(end)
        rest = file.read()
        if len(rest) < HEADER_BYTES or _read(file, end):  # finished meanwhile
            return
    fields = rest[: _FIELDS.size]
    whole = rest[_FIELDS.size : HEADER_BYTES] == _CHECKSUM.pack(crc32(fields))
    if not whole or len(rest) >= HEADER_BYTES + _FIELDS.unpack(fields)[1]:
        raise _damaged(path, end)


def _synced_later(file: BinaryIO, position: int) -> int:
    """How far the log was synced according to whole records after a position that has none."""
    file.seek(position)
    rest = file.read()
    synced, found = 0, rest.find(MAGIC)
    while found >= 0:
        if record := _read(file, position + found):
            synced = max(synced, record.synced)
        found = rest.find(MAGIC, found + 1)
    return synced


def _missing(path: Path) -> InputError:
    return InputError(f"{path} is missing: the index is damaged; build it again")


def _damaged(path: Path, position: int) -> InputError:
    return InputError(f"{path} is damaged at byte {position}: build the index again")


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]

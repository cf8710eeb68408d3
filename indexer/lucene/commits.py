"""The newest commit of a Lucene index, read without Java."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar
from zlib import crc32

from sparta.errors import InputError

SEGMENTS = "segments_"  # and the number of the commit to the base of 36
FORMAT = 10  # of the file, since Lucene 9.0
_ID = 16  # bytes of random identifiers
_HEADER = 17  # bytes of a magic number, the name of the format and its version
_FOOTER = 16  # bytes; the last eight are a CRC-32 of all before them

Result = TypeVar("Result")


def newest_commit(folder: Path) -> Path | None:
    """The file of the newest commit, whose name no other commit has; None if there is none."""
    found = folder.glob(f"{SEGMENTS}*")
    return max(found, key=lambda path: int(path.name[len(SEGMENTS) :], 36), default=None)


class CommitFile(NamedTuple):
    """A commit.

    Attributes:
        id: random, in hexadecimal; no other commit of any index has it.
        data: stored with the commit by who made it.
    """

    id: str
    data: dict[str, str]


def newest_id(folder: Path) -> str:
    """The id of the newest commit, empty if there is none."""
    return _at_newest(folder, lambda path: _id(path.read_bytes())) or ""


def read_newest(folder: Path) -> CommitFile | None:
    """Read the newest commit, None if there is none.

    Raises:
        InputError: if it is damaged or of another format.
    """
    return _at_newest(folder, read_commit)


def _at_newest(folder: Path, read: Callable[[Path], Result]) -> Result | None:
    """What is read of the newest commit, which goes once the next one is there."""
    newest = newest_commit(folder)
    while newest is not None:
        try:
            return read(newest)
        except FileNotFoundError:
            former, newest = newest, newest_commit(folder)
            if newest == former:
                raise
    return None


def _id(content: bytes) -> str:
    return content[_HEADER : _HEADER + _ID].hex()


def read_commit(path: Path) -> CommitFile:
    """Read a commit.

    Args:
        path: as `newest_commit` returns it.

    Raises:
        InputError: if the file is damaged or of another format.
        FileNotFoundError: if it has gone, as it does once the next commit is there.
    """
    content = path.read_bytes()
    if crc32(content[:-8]) != int.from_bytes(content[-8:], "big"):
        raise InputError(f"{path} is damaged: its checksum is wrong; build the index again")
    try:
        return CommitFile(_id(content), _user_data(_Fields(content[:-_FOOTER])))
    except (IndexError, ValueError) as error:
        raise InputError(f"{path} is of another format: build the index again") from error


def _user_data(fields: _Fields) -> dict[str, str]:
    """Lucene's `SegmentInfos`, of which all but the user data is skipped."""
    fields.skip(4)  # what every file begins with
    fields.text()
    if fields.number(4) != FORMAT:
        raise ValueError
    fields.skip(_ID)
    fields.text()
    for _ in range(4):  # Lucene's version, and the first one that wrote to the index
        fields.small()
    fields.skip(8)
    fields.small()
    segments = fields.number(4)
    for _ in range(3 if segments else 0):  # the version of the oldest segment
        fields.small()
    for _ in range(segments):
        _skip_segment(fields)
    found = {fields.text(): fields.text() for _ in range(fields.small())}
    if fields.left:
        raise ValueError
    return found


def _skip_segment(fields: _Fields) -> None:
    fields.text()
    fields.skip(_ID)
    fields.text()
    fields.skip(8 + 4 + 8 + 8 + 4)  # generations and counts of deletions and updates
    if fields.number(1):
        fields.skip(_ID)
    _skip_texts(fields)
    for _ in range(fields.number(4)):  # fields with updated values, and the files of these
        fields.skip(4)
        _skip_texts(fields)


def _skip_texts(fields: _Fields) -> None:
    for _ in range(fields.small()):
        fields.text()


class _Fields:
    """Values as Lucene's `DataOutput` writes them, read one after another."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def skip(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise IndexError
        self._at += size
        return self._content[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.skip(size), "big")

    def small(self) -> int:
        """Seven bits a byte, the low ones first; the last byte is below 128."""
        value = shift = 0
        while True:
            [byte] = self.skip(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def text(self) -> str:
        return self.skip(self.small()).decode()

"""What earlier runs saw of a folder of photos, in a file of the index."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sparta.atomic import sync
from sparta.errors import InputError
from sparta.features.extract.photos import Stamp

SYNC = "sync"  # folder of an index
VERSION = "1"
SCHEMA = pa.schema(
    {
        "image_id": pa.string(),
        "bytes": pa.int64(),
        "mtime_ns": pa.int64(),
        "sha256": pa.string(),  # null if the content was not read
        "problem": pa.string(),  # null if the photo could be used
    }
)


class Seen(NamedTuple):
    """One photo.

    Attributes:
        stamp: of its file.
        sha256: of its content; None if it was not read, since the index has it from its build.
        problem: why it cannot be used, None if it can.
    """

    stamp: Stamp
    sha256: str | None = None
    problem: str | None = None


@dataclass
class SeenPhotos:
    """`sync/HASH.arrow`: the photos of one folder.

    Attributes:
        root: the folder that ids are relative to.
        photos: by id.
    """

    root: Path
    photos: dict[str, Seen] = field(default_factory=dict)

    @classmethod
    def open(cls, index: Path, root: Path) -> SeenPhotos | None:
        """Read the file of an index about a folder, None if there is none.

        Raises:
            InputError: if it is damaged.
        """
        path = _path(index, root)
        return cls(root, _photos(_read(path))) if path.is_file() else None

    def of(self, below: str) -> dict[str, Seen]:
        """The photos whose ids begin so."""
        return {key: one for key, one in self.photos.items() if key.startswith(below)}

    def save(self, index: Path) -> None:
        """Write the file, whole or not at all."""
        ordered = sorted(self.photos.items())
        table = pa.table(
            [
                [image_id for image_id, _ in ordered],
                [one.stamp.bytes for _, one in ordered],
                [one.stamp.mtime_ns for _, one in ordered],
                [one.sha256 for _, one in ordered],
                [one.problem for _, one in ordered],
            ],
            schema=SCHEMA.with_metadata({"version": VERSION, "root": os.fsencode(self.root)}),
        )
        path = _path(index, self.root)
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with pa.ipc.new_file(str(unfinished), table.schema) as writer:
            writer.write_table(table)
        sync(unfinished)
        unfinished.replace(path)
        sync(path.parent)


def synced_folders(index: Path) -> list[Path]:
    """The folders that an index was brought up to date with.

    Raises:
        InputError: if a file about one is damaged.
    """
    return [
        Path(os.fsdecode(_read(path).schema.metadata[b"root"]))
        for path in sorted((index / SYNC).glob("*.arrow"))
    ]


def _path(index: Path, root: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()
    return index / SYNC / f"{digest[:16]}.arrow"


def _read(path: Path) -> pa.Table:
    try:
        with pa.ipc.open_file(str(path)) as reader:
            table = reader.read_all()
            metadata = reader.schema.metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path) from error
    if metadata.get(b"version") != VERSION.encode() or b"root" not in metadata:
        raise _damaged(path)
    return table


def _photos(table: pa.Table) -> dict[str, Seen]:
    columns = [table.column(name).to_pylist() for name in SCHEMA.names]
    return {
        image_id: Seen(Stamp(size, mtime), digest, problem)
        for image_id, size, mtime, digest, problem in zip(*columns, strict=True)
    }


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path} is damaged or of another version: delete it, and sparta sync begins as with an "
        "index that was just built"
    )

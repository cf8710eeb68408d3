"""The manifest of an index folder's columns, which names the Lucene index they were built from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from indexer.lucene.commits import newest_commit
from indexer.manifest import open_manifest, read_manifest, save_manifest
from indexer.parts import LUCENE, MANIFEST, Parts, columns_remedy

FOLDER = "columns"
FORMAT_VERSION = 5


@dataclass(frozen=True)
class ColumnManifest:
    """`columns/manifest.json`.

    Attributes:
        format_version: of the folder's layout.
        package_version: of the program that built it.
        created: when, ISO 8601, UTC.
        lucene: fingerprint of the state of the Lucene index the columns were built from; empty
            for a segment of a live index, which has some of its images.
        parts: path in the folder → size and hash.
    """

    format_version: int
    package_version: str
    created: str
    lucene: str
    parts: Parts

    @classmethod
    def save(cls, folder: Path, lucene: str, parts: Parts) -> None:
        """Describe a finished folder of these parts."""
        from importlib.metadata import version  # which a search does not need

        now = datetime.now(UTC).isoformat(timespec="seconds")
        save_manifest(cls(FORMAT_VERSION, version("visualsparta"), now, lucene, parts), folder)

    @classmethod
    def open(cls, folder: Path) -> ColumnManifest:
        """Read a folder's manifest and check that every part is complete.

        Raises:
            InputError: if the folder has another format, or a part is missing.
        """
        return open_manifest(cls, folder, FORMAT_VERSION, columns_remedy(folder))

    @classmethod
    def read(cls, folder: Path) -> ColumnManifest:
        """As `open`, without a look at the parts."""
        return read_manifest(cls, folder, FORMAT_VERSION, columns_remedy(folder))


def has_columns(index: Path) -> bool:
    """Whether an index folder has columns, up to date or not."""
    return (index / FOLDER / MANIFEST).is_file()


def columns_fit(index: Path) -> bool:
    """Whether the columns were built from the Lucene index beside them as it is now.

    Raises:
        InputError: if they are damaged.
    """
    return ColumnManifest.open(index / FOLDER).lucene == lucene_fingerprint(index)


def lucene_fingerprint(index: Path) -> str:
    """SHA-256 of what Lucene wrote at its last commit, which no two commits share."""
    newest = newest_commit(index / LUCENE)
    return hashlib.sha256(newest.read_bytes() if newest else b"").hexdigest()

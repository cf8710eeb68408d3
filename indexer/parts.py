"""The files of an index folder as its manifests list them: sizes, and hashes of their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparta.checksum import sha256
from sparta.errors import InputError

MANIFEST = "manifest.json"
LUCENE = "lucene"
UPLOADS = "uploads"  # photos that were sent to a server
# Field of the metadata that names the file of one; "" for an image that was sent without a photo,
# so that no file which happens to have its id is shown as its photo.
UPLOAD = "upload"
# Larger files are hashed by `sparta verify` alone: a search must not read gigabytes to open.
HASHED_AT_OPENING = 2**24
REMEDY = "restore a snapshot, or build the index again"


@dataclass(frozen=True)
class Part:
    """One file.

    Attributes:
        bytes: its size.
        sha256: of its content.
    """

    bytes: int
    sha256: str


Parts = Mapping[str, Part]


def describe_parts(folder: Path, pattern: str = "**/*") -> dict[str, Part]:
    """The files of a folder that fit a pattern (but its manifest), by their paths in it."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    return {
        name: Part((folder / name).stat().st_size, sha256(folder / name))
        for name in names
        if name != MANIFEST
    }


def check_size(path: Path, part: Part) -> None:
    """Refuse a file that is missing or cut.

    Raises:
        InputError: if it is.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing: the index is damaged; build it again")
    found = path.stat().st_size
    if found != part.bytes:
        raise InputError(
            f"{path} has {found} bytes instead of {part.bytes}: the index is damaged; build it "
            "again"
        )


def check_hash(path: Path, part: Part, found: str) -> None:
    """Refuse a file whose content has another hash.

    Raises:
        InputError: if it has.
    """
    if part.sha256 != found:
        raise InputError(
            f"{path} is damaged: its content has another hash than the manifest records; build "
            "the index again"
        )


def check_small_parts(folder: Path, parts: Parts) -> None:
    """Compare the content of files up to 16 MB with its hash.

    Raises:
        InputError: if a file is damaged.
    """
    for name, part in parts.items():
        if part.bytes <= HASHED_AT_OPENING:
            check_hash(folder / name, part, sha256(folder / name))

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


def columns_remedy(folder: Path) -> str:
    """What to do about damaged columns: those of an index as it was built are made again."""
    if (folder.parent / "live").exists() or folder.parent.name == "live":
        return (
            "--engine lucene searches without columns; restore a snapshot, or build the index again"
        )
    return f"delete {folder}, and the next search with --engine columns builds it again from Lucene"


@dataclass(frozen=True)
class Part:
    """One file.

    Attributes:
        bytes: its size.
        sha256: of its content; None for Lucene's files, which carry checksums of their own.
    """

    bytes: int
    sha256: str | None


Parts = Mapping[str, Part]


def describe_parts(folder: Path) -> dict[str, Part]:
    """Every file below a folder (but its manifest), by its path in it."""
    return {
        name: Part(size, None if name.startswith(f"{LUCENE}/") else sha256(folder / name))
        for name, size in part_sizes(folder).items()
    }


def part_sizes(folder: Path) -> dict[str, int]:
    """Every file below a folder (but its manifest), with its size."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    sizes.pop(MANIFEST, None)
    return sizes


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
    if part.sha256 not in (None, found):
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
        if part.sha256 is not None and part.bytes <= HASHED_AT_OPENING:
            check_hash(folder / name, part, sha256(folder / name))

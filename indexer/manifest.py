"""The manifest of an index folder, and the check that the folder is complete."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparta.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT_VERSION = 4
MANIFEST = "manifest.json"
LUCENE = "lucene"
OFFSETS = "term_offsets.npy"

Kind = TypeVar("Kind", bound="DataclassInstance")


@dataclass(frozen=True)
class Manifest:
    """`manifest.json`.

    Attributes:
        format_version: of the folder's layout.
        package_version: of the program that built it.
        created: when, ISO 8601, UTC.
        models: fingerprint of each model's weights and configuration.
        features: fingerprint of each feature store, the plain one first.
        vocabulary: hash of the terms in id order.
        photos: folder the images' files can be served from, None if unknown.
        top_n: terms an image keeps at most, None for all.
        bits: of an impact.
        scale: the term score that one impact level stands for.
        offset: kind of offset subtracted from the scores before pruning.
        offset_images: how many images it was estimated on.
        terms: "trained" (some training caption contained them) or "all".
        asked: source of the term frequencies by which an image's terms were chosen: "model" (its
            training captions), the SHA-256 of a file of queries, or "none" (scores alone).
        asked_power: the frequencies' power, 0 for "none".
        images: count.
        postings: count of (image, impact) pairs.
        distinct_terms: terms with at least one posting.
        clipped: scores above the top level.
        mean_error: mean of |impact × scale - score|.
        largest_error: its maximum.
        parts: path in the folder → size in bytes.
    """

    format_version: int
    package_version: str
    created: str
    models: list[str]
    features: list[str]
    vocabulary: str
    photos: str | None
    top_n: int | None
    bits: int
    scale: float
    offset: str
    offset_images: int
    terms: str
    asked: str
    asked_power: float
    images: int
    postings: int
    distinct_terms: int
    clipped: int
    mean_error: float
    largest_error: float
    parts: dict[str, int]

    def save(self, folder: Path) -> None:
        """Write `folder/manifest.json`."""
        save_manifest(self, folder)

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        """Read a folder's manifest and check that every part is complete.

        Raises:
            InputError: if the folder is not an index, has another format, or a part is missing.
        """
        return open_manifest(cls, folder, FORMAT_VERSION)

    def check_vocabulary(self, folder: Path, found: str) -> None:
        """Compare with the hash of the folder's tokenizer.

        Raises:
            InputError: if they differ.
        """
        if found != self.vocabulary:
            raise InputError(
                f"{folder}: its tokenizer.json has vocabulary {found[:12]}, the index was built "
                f"with {self.vocabulary[:12]}: put the right file back or build the index again"
            )


def save_manifest(manifest: DataclassInstance, folder: Path) -> None:
    """Write a dataclass as `folder/manifest.json`."""
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def open_manifest(kind: type[Kind], folder: Path, format_version: int) -> Kind:
    """Read `folder/manifest.json` as a dataclass and check that every part is complete.

    Args:
        kind: with the fields `format_version` and `parts`.
        folder: an index, or a part of one with its own manifest.
        format_version: the one that can be read.

    Raises:
        InputError: if there is none, it has another format, or a part is missing.
    """
    values = _read(folder)
    version = values.get("format_version")
    if version != format_version:
        raise InputError(
            f"{folder} has index format {version!r}, this version reads {format_version}: "
            "build the index again with `sparta index`"
        )
    expected = {field.name for field in fields(kind)}
    if expected != set(values):
        wrong = ", ".join(sorted(expected ^ set(values)))
        raise InputError(f"{folder / MANIFEST}: fields missing or unknown: {wrong}")
    for name, size in values["parts"].items():
        _check_part(folder / name, size)
    return kind(**values)


def part_sizes(folder: Path) -> dict[str, int]:
    """Every file below a folder (but its manifest), with its size."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    sizes.pop(MANIFEST, None)
    return sizes


def is_index(folder: Path) -> bool:
    """Whether a folder is an index, complete or damaged."""
    return (folder / MANIFEST).is_file()


def _read(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} is not an index: it has no {MANIFEST}")
    try:
        values = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}; build the index again") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} should contain one JSON object; build the index again")
    return values


def _check_part(path: Path, size: int) -> None:
    if not path.is_file():
        raise InputError(f"{path} is missing: the index is damaged; build it again")
    found = path.stat().st_size
    if found != size:
        raise InputError(
            f"{path} has {found} bytes instead of {size}: the index is damaged; build it again"
        )

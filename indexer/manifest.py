"""Manifests: what an index folder is, the size and hash of its files, and which shards it has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparta.errors import InputError
from sparta.files import sha256

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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


FORMAT_VERSION = 6
SEAL = "sha256"  # of the other fields, so that a damaged manifest is noticed
OFFSETS = "term_offsets.npy"
BUILD_AGAIN = "build the index again with `sparta index`"
SHARDS = "shards"  # field of the manifest of an index that is divided; see `indexer.manifest`

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
        images: count, as all counts here, as the index was built.
        postings: count of (image, impact) pairs.
        distinct_terms: terms with at least one posting.
        clipped: scores above the top level.
        mean_error: mean of |impact × scale - score|.
        largest_error: its maximum.
        parts: file that never changes → size and hash; segments have manifests of their own.
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
    parts: Parts

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

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """As `open`, without a look at the parts."""
        return read_manifest(cls, folder, FORMAT_VERSION)

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
    """Write a dataclass as `folder/manifest.json`, with a hash of its content."""
    values = asdict(manifest)
    text = json.dumps(values | {SEAL: _seal(values)}, indent=2)
    (folder / MANIFEST).write_text(text + "\n")


def open_manifest(
    kind: type[Kind], folder: Path, format_version: int, remedy: str = BUILD_AGAIN
) -> Kind:
    """Read `folder/manifest.json` as a dataclass and check that every part has its size.

    Args:
        kind: with the fields `format_version` and `parts`.
        folder: an index, or a part of one with its own manifest.
        format_version: the one that can be read.
        remedy: what to do about another one.

    Raises:
        InputError: if there is none, it is damaged or has another format, or a part is missing.
    """
    manifest = read_manifest(kind, folder, format_version, remedy)
    for name, part in parts_of(manifest).items():
        check_size(folder / name, part)
    return manifest


def read_manifest(
    kind: type[Kind], folder: Path, format_version: int, remedy: str = BUILD_AGAIN
) -> Kind:
    """As `open_manifest`, without a look at the parts."""
    values = _read(folder)
    if SHARDS in values and SHARDS not in {field.name for field in fields(kind)}:
        raise InputError(
            f"{folder} is divided into {len(values[SHARDS])} shards, which this does not take: "
            f"give one of them, such as {folder / values[SHARDS][0]}"
        )
    version = values.get("format_version")
    if version != format_version:
        raise InputError(
            f"{folder} has index format {version!r}, this version reads {format_version}: {remedy}"
        )
    path = folder / MANIFEST
    seal = values.pop(SEAL, None)
    expected = {field.name for field in fields(kind)}
    if expected != set(values):
        wrong = ", ".join(sorted(expected ^ set(values)))
        raise InputError(f"{path}: fields missing or unknown: {wrong}; build the index again")
    if seal != _seal(values):
        raise InputError(f"{path} is damaged: its content has another hash; build the index again")
    values["parts"] = {name: Part(**part) for name, part in values["parts"].items()}
    return kind(**values)


def parts_of(manifest: DataclassInstance) -> Parts:
    """The files that a manifest of any kind lists."""
    parts: Parts = manifest.parts  # type: ignore[attr-defined]
    return parts


def is_index(folder: Path) -> bool:
    """Whether a folder is an index, complete or damaged, divided or not."""
    return (folder / MANIFEST).is_file()


def is_sharded(folder: Path) -> bool:
    """Whether a folder is an index that is divided into shards."""
    try:
        return SHARDS in _read(folder)
    except InputError:
        return False


def _seal(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _read(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} is not an index: it has no {MANIFEST}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}; build the index again") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} should contain one JSON object; build the index again")
    return values


DIGEST = 8  # bytes of an id's hash


@dataclass(frozen=True)
class ShardsManifest:
    """`manifest.json` of a divided index. Every shard is an index in itself.

    Offsets, scale, vocabulary and kinds of fields are those of all images, in every shard.

    Attributes:
        format_version: of the folder's layout.
        package_version: of the program that divided it.
        created: when, ISO 8601, UTC.
        images: of all shards as they were built.
        shards: names of their folders; an image is in the one at the place of its `owner`.
        parts: none; files are listed by the shards.
    """

    format_version: int
    package_version: str
    created: str
    images: int
    shards: list[str]
    parts: Parts

    def save(self, folder: Path) -> None:
        """Write `folder/manifest.json`."""
        save_manifest(self, folder)

    @classmethod
    def open(cls, folder: Path) -> ShardsManifest:
        """Read a folder's manifest.

        Raises:
            InputError: if the folder is no divided index of this version.
        """
        return open_manifest(cls, folder, FORMAT_VERSION)


def shard_name(number: int) -> str:
    """The folder of a shard in a divided index."""
    return f"shard-{number:03d}"


def owner(image_id: str, shards: int) -> int:
    """Which of some shards has an image, if any has it.

    Args:
        image_id: any text.
        shards: how many there are.
    """
    content = image_id.encode(errors="surrogatepass")
    digest = hashlib.blake2b(content, digest_size=DIGEST).digest()
    return int.from_bytes(digest, "big") % shards


def index_folders(folder: Path) -> list[Path]:
    """The plain indexes that an index folder consists of: its shards, or the folder itself.

    Raises:
        InputError: if the folder is divided, and its manifest is damaged.
    """
    if not is_sharded(folder):
        return [folder]
    return [folder / name for name in ShardsManifest.open(folder).shards]

"""Manifests: what an index folder is, the size and hash of its files, and which shards it has."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from sparta.errors import InputError
from sparta.features.record import precision_of
from sparta.files import files_below, sha256
from sparta.json_values import Json, JsonMapping

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

SYNC = "sync"  # folder of an index: which photos `sparta sync` has seen
SEEN = (".arrow", ".built")  # of its files: written by `sparta sync`, and by the build
SYNC_AGAIN = "delete it, and sparta sync begins as with an index that was just built"


def read_seen(path: Path) -> bytes:
    """The content of such a file, after which its SHA-256 follows; raises InputError if damaged."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {SYNC_AGAIN}") from error
    if hashlib.sha256(content[:-32]).digest() == content[-32:]:
        return content[:-32]
    if not content.endswith(b"ARROW1"):  # as former versions wrote it, without a hash
        raise InputError(f"{path} is damaged: its content has another hash; {SYNC_AGAIN}")
    return content


def uploads_of(index: Path) -> list[Path]:
    """The photos that were sent to a server of an index."""
    return [path for path in files_below(index / UPLOADS) if path.name[:1] != "."]


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
    """Raise InputError if a file is missing or cut."""
    if not path.is_file():
        raise InputError(f"{path} is missing: the index is damaged; build it again")
    found = path.stat().st_size
    if found != part.bytes:
        raise InputError(
            f"{path} has {found} bytes instead of {part.bytes}: the index is damaged; build it "
            "again"
        )


def check_hash(path: Path, part: Part, found: str) -> None:
    """Raise InputError if a file has another content than the manifest records."""
    if part.sha256 != found:
        raise InputError(
            f"{path} is damaged: its content has another hash than the manifest records; build "
            "the index again"
        )


def check_small_parts(folder: Path, parts: Parts) -> None:
    """Raise InputError if a file up to 16 MB has another content than its hash says."""
    for name, part in parts.items():
        if part.bytes <= HASHED_AT_OPENING:
            check_hash(folder / name, part, sha256(folder / name))


FORMAT_VERSION = 7  # of an index, whole or divided
VERSION = "format_version"  # of the folder's layout
SEAL = "sha256"  # of the other fields, so that a damaged manifest is noticed
OFFSETS = "term_offsets.npy"
TEXT_TOWER = "text_tower"  # folder of a dual encoder's text tower, for re-ranking
SHARDS = "shards"  # field of a `ShardsManifest`
DIGEST = 8  # bytes of an id's hash


@dataclass(frozen=True, kw_only=True)
class SealedManifest:
    """`manifest.json` of a folder: what it is, and the size and hash of its files.

    Attributes:
        FORMAT: of the folder's layout, the one that can be read; fields with a default may lack.
        parts: path in the folder → size and hash.
    """

    FORMAT: ClassVar[int]

    parts: Parts

    def save(self, folder: Path) -> None:
        """Write `folder/manifest.json`, with a hash of its content."""
        values = {VERSION: self.FORMAT} | asdict(self)
        if not values.get("rerank", True):
            del values["rerank"]
        values["parts"] = values.pop("parts")  # at the end, where people skip it
        text = json.dumps(values | {SEAL: _seal(values)}, indent=2)
        (folder / MANIFEST).write_text(text + "\n")

    @classmethod
    def read_from(cls, folder: Path, former: bool = False) -> Self:
        """Read `folder/manifest.json`, without a look at the files.

        Raises InputError if there is none, it is damaged, or it has another format; a `former` one
        may be allowed.
        """
        values = _read(folder)
        expected = {VERSION, *(one.name for one in fields(cls))}
        absent = {one.name for one in fields(cls) if one.default_factory is not MISSING} - {*values}
        if SHARDS in values and SHARDS not in expected:
            raise InputError(
                f"{folder} is divided into {len(values[SHARDS])} shards, which this does not take: "
                f"make one index of them with `sparta merge {folder} --shards 1 --out NEW`"
            )
        found: Any = values.get(VERSION)
        seal = values.pop(SEAL, None)
        former = former and isinstance(found, int) and found < cls.FORMAT
        if found != cls.FORMAT and not former:
            advice = _build_again(folder, values)
            if isinstance(found, int) and found > cls.FORMAT:
                advice = f"upgrade VisualSparta to {values.get('package_version')} or newer"
            raise InputError(
                f"{folder} has index format {found!r}, this version reads {cls.FORMAT}: {advice}"
            )
        path, lacking = folder / MANIFEST, expected - absent - values.keys()
        if wrong := lacking if former else lacking | (values.keys() - expected):
            names = ", ".join(sorted(wrong))
            raise InputError(f"{path}: fields missing or unknown: {names}; build the index again")
        # Of a former format the number alone may have been changed, as to go back a version.
        numbers = range(found, cls.FORMAT + 1) if former else [found]
        if seal not in [_seal(values | {VERSION: number}) for number in numbers]:
            raise InputError(
                f"{path} is damaged: its content has another hash; build the index again"
            )
        values["parts"] = {name: Part(**part) for name, part in values["parts"].items()}
        return cls(**{name: values[name] for name in values.keys() & expected - {VERSION}})

    def check_sizes(self, folder: Path) -> None:
        """Raise `InputError` if a file is missing or has another size."""
        for name, part in self.parts.items():
            check_size(folder / name, part)


class FolderManifest(SealedManifest):
    """A manifest that is opened by its folder alone."""

    @classmethod
    def open(cls, folder: Path, former: bool = False) -> Self:
        """Read a folder's manifest and check that every file is complete.

        Raises InputError as `read_from`, or if a file is missing or cut.
        """
        manifest = cls.read_from(folder, former)
        manifest.check_sizes(located(folder))
        return manifest

    @classmethod
    def read(cls, folder: Path) -> Self:
        """As `open`, without a look at the files."""
        return cls.read_from(folder)


@dataclass(frozen=True, kw_only=True)
class Manifest(FolderManifest):
    """`manifest.json` of an index.

    Attributes:
        package_version: of the program that built it.
        created: when, ISO 8601, UTC.
        models: fingerprint of each model's weights and configuration.
        model_names: where each model is: a folder, "photos", "sample" or a name on the hub; empty
            in an index of version 0.2.0.
        features: fingerprint of each feature store, the plain one first; it names the precision
            unless that is float32.
        vocabulary: hash of the terms in id order.
        photos: folder the images' files can be served from, None if unknown.
        top_n: terms an image keeps at most, None for all.
        bits: of an impact.
        scale: the term score that one impact level stands for.
        offset: kind of offset subtracted from the scores before pruning.
        offset_images: how many images it was estimated on.
        terms: "trained" (some training caption contained them) or "all".
        frequencies: source of the term frequencies by which an image's terms were chosen: "model"
            (its training captions), the SHA-256 of a file of queries, or "none" (scores alone).
        frequency_power: the frequencies' power, 0 for "none".
        images: count, as all counts here, as the index was built.
        postings: count of (image, impact) pairs.
        distinct_terms: terms with at least one posting.
        clipped: scores above the top level.
        mean_error: mean of |impact × scale - score|.
        largest_error: its maximum.
        rerank: how many hits a search may re-rank by images' vectors; 0, which is not written, if
            the index keeps none.
    """

    FORMAT = FORMAT_VERSION

    package_version: str
    created: str
    models: list[str]
    model_names: list[str] = field(default_factory=list)
    features: list[str]
    vocabulary: str
    photos: str | None
    top_n: int | None
    bits: int
    scale: float
    offset: str
    offset_images: int
    terms: Literal["trained", "all"]
    frequencies: str
    frequency_power: float
    images: int
    postings: int
    distinct_terms: int
    clipped: int
    mean_error: float
    largest_error: float
    rerank: int = field(default_factory=int)

    @classmethod
    def of(cls, index: Path) -> Manifest:
        """As `open`, of an index or of its first shard: all shards are encoded alike."""
        return cls.open(index_folders(index)[0])

    @property
    def precision(self) -> str:
        """What the backbone of the plain feature store computed in."""
        return precision_of(self.features[0])

    def check_vocabulary(self, folder: Path, found: str) -> None:
        """Raise InputError if the folder's tokenizer has another hash."""
        if found != self.vocabulary:
            raise InputError(
                f"{folder}: its tokenizer.json has vocabulary {found[:12]}, the index was built "
                f"with {self.vocabulary[:12]}: put the right file back or build the index again"
            )


_INNER = re.compile(rf"(index-\d{{3,}})/{re.escape(MANIFEST)}")


def located(folder: Path) -> Path:
    """Where an index lies that has this path: there, or in a folder of that.

    A folder that cannot be replaced, such as a mount point, has its index in a folder of its own,
    to whose manifest its `manifest.json` is a link.
    """
    with suppress(OSError):  # an ordinary file, or none
        if found := _INNER.fullmatch(str((folder / MANIFEST).readlink())):
            return folder / found[1]
    return folder


def is_index(folder: Path) -> bool:
    """Whether a folder is an index, complete or damaged, divided or not."""
    return (folder / MANIFEST).is_file()


def is_sharded(folder: Path) -> bool:
    """Whether a folder is an index that is divided into shards."""
    return bool(shard_names(folder))


def shard_names(folder: Path) -> list[str]:
    """The folders of the shards that an index names; none if it has none, or is no index."""
    try:
        found = _read(folder).get(SHARDS)
    except InputError:
        return []
    return [str(name) for name in found] if isinstance(found, list) else []


def check_whole(folder: Path) -> None:
    """Refuse to write to a shard alone; its copy elsewhere is an index of its own.

    Raises InputError, which names the sharded index.
    """
    for place in (folder.absolute(), folder.resolve()):
        if place.name in shard_names(place.parent):
            raise InputError(
                f"{folder} is a shard, and takes no writes alone: give the index, {place.parent}"
            )


def _seal(values: Json) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _build_again(folder: Path, values: JsonMapping) -> str:
    """What to do with a folder of a former format; of an index, the command."""
    if SHARDS in values:
        folder = folder / values[SHARDS][0]
        values = _read(folder)
    if "model_names" not in values:
        return "build the index again with `sparta index`"
    whole, options = folder, [("--model", str(name)) for name in values["model_names"]]
    if is_sharded(folder.parent):
        whole = folder.parent
        options.append(("--shards", str(len(index_folders(whole)))))
    photos, more = str(values.get("photos") or "PHOTOS"), chain(*options, ("--out", str(whole)))
    command = shlex.join(["sparta", "index", photos, *more])
    return f"build the index again with `{command}`, which keeps what was given to it"


def _read(folder: Path) -> Json:
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


@dataclass(frozen=True, kw_only=True)
class ShardsManifest(FolderManifest):
    """`manifest.json` of a divided index. Every shard is an index in itself.

    Offsets, scale, vocabulary and kinds of fields are those of all images, in every shard. Files
    are listed by the shards.

    Attributes:
        package_version: of the program that divided it.
        created: when, ISO 8601, UTC.
        images: of all shards as they were built.
        shards: names of their folders; an image is in the one at the place of its `owner`.
    """

    FORMAT = FORMAT_VERSION

    package_version: str
    created: str
    images: int
    shards: list[str]


def shard_name(number: int) -> str:
    """The folder of a shard in a divided index."""
    return f"shard-{number:03d}"


def owner(image_id: str, shards: int) -> int:
    """Which of some shards has an image, if any has it; the id may be any text."""
    content = image_id.encode(errors="surrogatepass")
    digest = hashlib.blake2b(content, digest_size=DIGEST).digest()
    return int.from_bytes(digest, "big") % shards


def index_folders(folder: Path) -> list[Path]:
    """The plain indexes that an index folder consists of: its shards, or the folder itself.

    Raises InputError if the folder is divided, and its manifest is damaged.
    """
    folder = located(folder)
    if not is_sharded(folder):
        return [folder]
    return [folder / name for name in ShardsManifest.open(folder, former=True).shards]

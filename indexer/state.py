"""The state of an index folder as its manifests describe it, read without opening the index."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from indexer.answer import Version
from indexer.dense.manifest import DenseManifest, dense_folder, dense_names
from indexer.manifest import (
    LUCENE,
    MANIFEST,
    Manifest,
    index_folders,
    is_index,
    is_sharded,
    located,
)
from indexer.store.commit import LOGS, SEGMENTS, read_commit
from sparta.errors import InputError
from sparta.files import files_below

VERSION_DIGITS = 12


@dataclass(frozen=True)
class IndexState:
    """What the manifests of an index folder say.

    Attributes:
        version: names the content of the folder; another build, another dense part and the same
            built twice have other versions. Commits have numbers besides.
        place: of the folder; see `place_of`.
        manifest: of the index, with counts of its build.
        images: of the newest commit.
        dense: names of its dense parts.
        bytes: of all files that the manifests list, and of segments, logs and Lucene.
    """

    version: str
    place: int
    manifest: Manifest
    images: int
    dense: tuple[str, ...]
    bytes: int

    @classmethod
    def read(cls, folder: Path) -> IndexState:
        """Read all manifests of an index folder and check that every file has its size.

        Raises InputError if the folder is not an index, has another format, or a part is missing.
        """
        place = place_of(folder)  # before what it has, which may be replaced meanwhile
        folder = located(folder)
        if is_sharded(folder):
            return cls._of_shards(folder, place)
        manifest, images = Manifest.open(folder), read_commit(folder).images
        parts = list(manifest.parts.values())
        names = tuple(dense_names(folder))
        for name in names:
            parts += DenseManifest.open(folder, name, manifest).parts.values()
        size = sum(part.bytes for part in parts)
        size += sum(bytes_below(folder / name) for name in (SEGMENTS, LOGS, LUCENE))
        return cls(index_version(folder), place, manifest, images, names, size)

    @classmethod
    def _of_shards(cls, folder: Path, place: int) -> IndexState:
        """The shards together; the manifest is that of the first with the counts of all."""
        states = [cls.read(one) for one in index_folders(folder)]
        manifests = [state.manifest for state in states]
        manifest = replace(
            manifests[0],
            images=sum(one.images for one in manifests),
            postings=sum(one.postings for one in manifests),
            distinct_terms=max(one.distinct_terms for one in manifests),
        )
        size = sum(state.bytes for state in states)
        images = sum(state.images for state in states)
        return cls(index_version(folder), place, manifest, images, (), size)


def index_version(folder: Path) -> str:
    """The first digits of the SHA-256 of an index folder's manifests.

    Commits do not count: they have numbers of their own. Raises OSError if there is no manifest.
    """
    digest = hashlib.sha256((folder / MANIFEST).read_bytes())
    for name in dense_names(folder):
        digest.update(name.encode() + (dense_folder(folder, name) / MANIFEST).read_bytes())
    return digest.hexdigest()[:VERSION_DIGITS]


def newest_version(folder: Path) -> str:
    """The version that answers of the newest commit name; raises InputError if it is damaged."""
    found = enumerate(map(read_commit, index_folders(folder)))
    commits = tuple((number, one.lineage, one.version) for number, one in found)
    return Version(commits).of(index_version(folder))


def place_of(folder: Path) -> int:
    """A number for the folders that an index's path leads to now, those of its shards among them.

    It is another one once an alias was switched, or a folder was replaced: be it by a copy, whose
    manifest may be the same file. Raises InputError or OSError if there is no index.
    """
    real = located(folder).resolve()
    if not is_index(real):
        raise InputError(f"{folder} is not an index: it has no {MANIFEST}")
    folders = {path.resolve(): path.stat() for path in (real, *index_folders(real))}
    names = [(str(path), found.st_dev, found.st_ino) for path, found in folders.items()]
    return int.from_bytes(hashlib.blake2b(repr(names).encode(), digest_size=8).digest())


def bytes_below(folder: Path) -> int:
    """Size of all files below a folder, but for those that are removed meanwhile or unreadable."""
    size = 0
    for path in files_below(folder):
        with suppress(OSError):
            size += path.stat().st_size
    return size

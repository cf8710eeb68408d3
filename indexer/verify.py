"""Checks every file of an index folder: sizes, hashes, and whether they are of one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from indexer.dense.manifest import DenseManifest, dense_folder, dense_names
from indexer.dense.vectors import AddedRows, read_content_ids
from indexer.engines.lucene import check_lucene
from indexer.manifest import (
    LUCENE,
    REMEDY,
    SEEN,
    SYNC,
    UPLOAD,
    UPLOADS,
    Manifest,
    Part,
    check_hash,
    check_size,
    index_folders,
    is_sharded,
    located,
    owner,
    read_seen,
    uploads_of,
)
from indexer.store.commit import Commit, log_numbers, log_path, read_commit, segment_folder
from indexer.store.given import FILE as GIVEN
from indexer.store.given import read_given
from indexer.store.log import check_tail
from indexer.store.segment import SegmentManifest, check_seal
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.files import sha256
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer

SENT_AGAIN = "send the photo again"


def verify_index(index: Path, progress: Progress = no_progress) -> list[str]:
    """Check all that the newest commit of an index consists of, each file whole.

    Returns what is damaged, a line each. Progress has the stage "hash", in megabytes. Raises
    InputError if the folder is not an index of this version.
    """
    index = located(index)
    problems: list[str] = []
    for path in sorted(path for path in (index / SYNC).glob("*") if path.suffix in SEEN):
        with _noting(problems):
            read_seen(path)
    if is_sharded(index):
        return problems + _verify_shards(index, progress)
    manifest = Manifest.read(index)
    files = _paths(index, manifest.parts)
    commit = None
    with _noting(problems):
        commit = read_commit(index)
    entries = {**commit.segments.entries} if commit else {}
    if (index / LUCENE).is_dir():
        with _noting(problems):
            check_lucene(index / LUCENE)
            entries |= read_commit(index / LUCENE).segments.entries
    for name, entry in entries.items():
        with _noting(problems):
            folder = segment_folder(index, name)
            check_seal(folder, entry)
            files |= _paths(folder, SegmentManifest.read(folder).parts)
        with _noting(problems):
            entry.live(index)
    for name in dense_names(index):
        with _noting(problems):
            folder = dense_folder(index, name)
            files |= _paths(folder, DenseManifest.read(index, name, manifest).parts)
    _check_files(files, problems, progress)
    problems += [f"{path} is damaged: {SENT_AGAIN}" for path in _damaged_uploads(index)]
    if commit is not None:
        with _noting(problems):
            read_given(index)
        logs = [log_path(index, one) for one in log_numbers(index) if one >= commit.segments.log]
        for path in [index / GIVEN, *logs]:
            with _noting(problems):
                check_tail(path) if path.is_file() else None
    if commit is not None and not problems:
        with _noting(problems):
            _check_references(index, manifest, commit)
            problems += [f"{path} is missing: {SENT_AGAIN}" for path in _missing_uploads(index)]
    return problems


def _verify_shards(index: Path, progress: Progress) -> list[str]:
    """What is damaged in any shard, and whether every image is in its own."""
    problems: list[str] = []
    folders = index_folders(index)
    for number, folder in enumerate(folders):
        with _noting(problems):
            found = verify_index(folder, progress)
            problems += found or _misplaced(folder, number, len(folders))
    return problems


def _misplaced(folder: Path, number: int, shards: int) -> list[str]:
    images = Snapshot.open(folder)
    ids = (images.stored(document).image_id for document in images.live_documents().tolist())
    wrong = [image_id for image_id in ids if owner(image_id, shards) != number]
    if not wrong:
        return []
    return [f"{folder} has {len(wrong)} images of other shards, such as {wrong[0]}: divide again"]


def _paths(folder: Path, parts: Mapping[str, Part]) -> dict[Path, Part]:
    return {folder / name: part for name, part in parts.items()}


def _check_files(files: Mapping[Path, Part], problems: list[str], progress: Progress) -> None:
    total, done = sum(part.bytes for part in files.values()), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress("hash", -(-done // 10**6), -(-total // 10**6))

    for path, part in files.items():
        with _noting(problems):
            _check_file(path, part, advance)


def _check_file(path: Path, part: Part, advance: Callable[[int], None]) -> None:
    check_size(path, part)
    check_hash(path, part, sha256(path, advance))


def _check_references(index: Path, manifest: Manifest, commit: Commit) -> None:
    """Whether the parts of an index are of one another."""
    manifest.check_vocabulary(index, TermTokenizer.from_folder(index).vocabulary_hash)
    images = Snapshot.open(index)  # which reads the change log
    if images.commit == commit and len(images) != commit.images:
        raise InputError(
            f"{index} has {len(images)} images, its commit names {commit.images}: {REMEDY}"
        )
    for name in dense_names(index):
        _check_rows(dense_folder(index, name), DenseManifest.read(index, name, manifest))


def _damaged_uploads(index: Path) -> list[Path]:
    """The photos that were sent and are not what their names are hashes of."""
    return [path for path in uploads_of(index) if sha256(path) != path.stem]


def _missing_uploads(index: Path) -> list[Path]:
    """The photos that were sent, are in the index, and are not there."""
    images = Snapshot.open(index)
    stored = images.stored_all(images.live_documents().tolist())
    names = sorted({str(one.metadata[UPLOAD]) for one in stored if one.metadata.get(UPLOAD)})
    return [path for name in names if not (path := index / UPLOADS / name).is_file()]


def _check_rows(folder: Path, part: DenseManifest) -> None:
    """Whether a dense part names its rows, and those added since are whole."""
    named = len(read_content_ids(folder))
    if named != part.images:
        raise InputError(
            f"{folder} has {part.images} rows and names {named}: add it again with "
            "`sparta add --dense`"
        )
    added = AddedRows(folder, part.views, part.dimension)
    added.vectors(len(added.content_ids()))


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems.append(str(error))

"""Checks every file of an index folder: sizes, hashes, Lucene's own check, cross-references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from indexer.columns.image_table import ImageTable
from indexer.columns.index import ColumnIndex
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState, state_folder
from indexer.columns.manifest import FOLDER as COLUMNS
from indexer.columns.manifest import ColumnManifest, has_columns
from indexer.dense.added import AddedRows
from indexer.dense.manifest import DenseManifest, dense_folder, dense_names
from indexer.dense.row_origins import read_origins
from indexer.live.commit import FOLDER as LIVE
from indexer.live.commit import Commit
from indexer.live.given import check_given
from indexer.live.history import read_changes
from indexer.lucene.integrity import check_index
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest, is_sharded
from indexer.parts import LUCENE, Part, check_hash, check_size
from indexer.shards import index_folders, owner
from sparta.checksum import sha256
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer


def verify_index(index: Path, progress: Progress = no_progress) -> list[str]:
    """Check an index folder, its columns, its dense parts and its change logs, each file whole.

    Of an index that is written to, what its last commit consists of is checked.

    Args:
        index: the folder.
        progress: stages "hash", in megabytes, and "lucene", in indexes.

    Returns:
        what is damaged, a line each.

    Raises:
        InputError: if the folder is not an index of this version.
    """
    if is_sharded(index):
        return _verify_shards(index, progress)
    problems: list[str] = []
    manifest = Manifest.read(index)
    files = _paths(index, manifest.parts)
    segments = [COLUMNS] if has_columns(index) else []
    commit = _commit(index) if manifest.live else None
    if commit is not None:
        with _noting(problems):
            state = ColumnState.open(index, commit.columns)
            segments = list(state.segments)
            files |= _paths(state_folder(index, commit.columns), state.parts)
    for name in segments:
        with _noting(problems):
            files |= _paths(index / name, ColumnManifest.read(index / name).parts)
    for name in dense_names(index):
        with _noting(problems):
            folder = dense_folder(index, name)
            files |= _paths(folder, DenseManifest.read(index, name, manifest).parts)
    _check_files(files, problems, progress)
    with _noting(problems):
        check_given(index, commit.given if commit else None)
    progress("lucene", 0, 1)
    with _noting(problems):
        check_index(index / LUCENE)
    progress("lucene", 1, 1)
    if not problems:
        with _noting(problems):
            _check_references(index, manifest, commit)
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
    with closing(LuceneIndex(folder / LUCENE)) as lucene:
        live = range(lucene.documents) if lucene.live is None else np.flatnonzero(lucene.live)
        ids = (lucene.stored(int(document)).image_id for document in live)
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
    if part.sha256 is None:
        advance(part.bytes)
    else:
        check_hash(path, part, sha256(path, advance))


def _commit(index: Path) -> Commit | None:
    """The last commit; None if Lucene's files are so damaged that it cannot be read."""
    try:
        with closing(LuceneIndex(index / LUCENE)) as lucene:
            return Commit.of(lucene.commit_data, index)
    except InputError:
        return None  # which the check of these files reports


def _check_references(index: Path, manifest: Manifest, commit: Commit | None) -> None:
    """Whether the parts of an index are of one another."""
    manifest.check_vocabulary(index, WordPieceTokenizer.from_folder(index).vocabulary_hash)
    if commit is not None:
        _check_live(index, manifest, commit)
        for name in dense_names(index):
            _check_rows(dense_folder(index, name), DenseManifest.read(index, name, manifest))
    elif has_columns(index):
        for count in (len(ColumnIndex.open(index / COLUMNS)), len(ImageTable(index / COLUMNS))):
            _check_count(index / COLUMNS, count, manifest.images)


def _check_live(index: Path, manifest: Manifest, commit: Commit) -> None:
    """Whether columns and change logs up to a commit have as many images as Lucene."""
    with closing(LuceneIndex(index / LUCENE)) as lucene:
        images = len(lucene)
    terms = len(WordPieceTokenizer.from_folder(index).vocabulary)
    columns = LiveColumns.open(index, commit.columns, terms, manifest.bits)
    first = ColumnState.open(index, commit.columns).log
    columns = columns.after(read_changes(index, first, 0, commit))
    _check_count(index / LIVE, len(columns), images)


def _check_rows(folder: Path, part: DenseManifest) -> None:
    """Whether a dense part names its rows, and those added since are whole."""
    named = len(read_origins(folder))
    if named != part.images:
        raise InputError(
            f"{folder} has {part.images} rows and names {named}: add it again with "
            "`sparta index-dense`"
        )
    added = AddedRows(folder, part.views, part.dimension)
    added.vectors(len(added.origins()))


def _check_count(folder: Path, count: int, images: int) -> None:
    if count != images:
        raise InputError(f"{folder} has {count} images, the index {images}: build the index again")


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems.append(str(error))

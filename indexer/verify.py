"""Checks every file of an index folder: sizes, hashes, Lucene's own check, cross-references."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from indexer.columns.image_table import ImageTable
from indexer.columns.index import ColumnIndex
from indexer.columns.live.state import ColumnState
from indexer.columns.manifest import FOLDER as COLUMNS
from indexer.columns.manifest import ColumnManifest, has_columns
from indexer.dense.manifest import DenseManifest, dense_folder, dense_names
from indexer.live.commit import Commit
from indexer.live.history import read_changes
from indexer.lucene.integrity import check_index
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE, Part, check_hash, check_size
from sparta.checksum import sha256
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer


def verify_index(index: Path, progress: Progress = no_progress) -> list[str]:
    """Check an index folder, its columns, its dense parts and its change log, each file whole.

    Args:
        index: the folder.
        progress: stages "hash", in megabytes, and "lucene", in indexes.

    Returns:
        what is damaged, a line each.

    Raises:
        InputError: if the folder is not an index of this version.
    """
    problems: list[str] = []
    manifest = Manifest.read(index)
    files = _paths(index, manifest.parts)
    if has_columns(index):
        with _noting(problems):
            files |= _paths(index / COLUMNS, ColumnManifest.read(index / COLUMNS).parts)
    for name in dense_names(index):
        with _noting(problems):
            folder = dense_folder(index, name)
            files |= _paths(folder, DenseManifest.read(index, name, manifest).parts)
    _check_files(files, problems, progress)
    progress("lucene", 0, 1)
    with _noting(problems):
        check_index(index / LUCENE)
    progress("lucene", 1, 1)
    if manifest.live and not problems:
        with _noting(problems):
            _check_log(index)
    if not problems:
        with _noting(problems):
            _check_references(index, manifest)
    return problems


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


def _check_log(index: Path) -> None:
    """Whether the change log is whole up to the last commit."""
    with closing(LuceneIndex(index / LUCENE)) as lucene:
        commit = Commit.of(lucene.commit_data, index)
    if commit.log:
        first = ColumnState.open(index, commit.columns).log
        deque(read_changes(index, first, 0, commit), maxlen=0)


def _check_references(index: Path, manifest: Manifest) -> None:
    """Whether the parts of an index are of one another."""
    manifest.check_vocabulary(index, WordPieceTokenizer.from_folder(index).vocabulary_hash)
    if not has_columns(index):
        return
    for count in (len(ColumnIndex.open(index / COLUMNS)), len(ImageTable(index / COLUMNS))):
        if count != manifest.images:
            raise InputError(
                f"{index / COLUMNS} has {count} images, the index {manifest.images}: build the "
                "index again"
            )


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems.append(str(error))

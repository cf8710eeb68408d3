"""The one way to open an index folder: its inverted index, or any of its backends by name."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from indexer.dense.manifest import SPARSE, dense_names
from indexer.manifest import Manifest, is_sharded
from indexer.search.api import Searcher
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

if TYPE_CHECKING:
    from indexer.search.dense import DenseSearcher
    from indexer.search.lazy import LazySearcher
    from indexer.search.sharded.open import LocalSearcher

    LazyDense: TypeAlias = LazySearcher[LuceneSearcher, DenseSearcher]

Engine = Literal["auto", "lucene", "columns"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

log = logging.getLogger(__name__)


def open_index(
    folder: str | Path, engine: str = "auto", progress: Progress = no_progress
) -> LuceneSearcher:
    """Open the inverted index of an index folder.

    Args:
        folder: the index folder.
        engine: "columns"; "lucene", the index beside them as of its build; or "auto": columns.
        progress: of nothing.

    Raises:
        InputError: if the folder is not an index or is damaged, or the engine is unknown.
    """
    folder = Path(folder)
    if engine not in ENGINES:
        raise InputError(f"--engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    searcher = _opened(folder, engine, progress)
    searcher.reopen = partial(open_index, folder, engine)
    return searcher


def _opened(folder: Path, engine: str, progress: Progress) -> LuceneSearcher:
    if engine == "lucene":
        return LuceneSearcher(folder)
    from indexer.search.live_columns import LiveColumnSearcher

    return LiveColumnSearcher(folder)


def open_searcher(folder: Path, engine: str = "auto") -> LuceneSearcher | LocalSearcher:
    """Open the inverted index of an index folder, divided into shards or not; see `open_index`.

    Raises:
        InputError: as `open_index`.
    """
    if not is_sharded(folder):
        return open_index(folder, engine)
    from indexer.search.sharded.open import open_sharded

    return open_sharded(folder, partial(open_index, engine=engine))


def open_backend(folder: Path, name: str = SPARSE, engine: str = "auto") -> Searcher:
    """Open one backend of an index folder.

    Args:
        folder: the index folder.
        name: "sparta" (the inverted index) or a dense part's name.
        engine: of the inverted index; see `open_index`.

    Raises:
        InputError: if the folder is not an index or is damaged, it has no such backend, or FAISS
            is not installed.
    """
    if name == SPARSE:
        return open_searcher(folder, engine)
    from indexer.search.dense_part import DensePart

    manifest = Manifest.open(folder)
    sparse = open_index(folder)
    return DensePart(folder, name, manifest).searcher(sparse.images)


def open_dense_lazily(folder: Path, sparse: LuceneSearcher) -> dict[str, LazyDense]:
    """All dense backends of an index folder by name, each opened by its first query.

    Args:
        folder: the index folder.
        sparse: its inverted index, open; must be closed last.

    Raises:
        InputError: if a dense part is damaged or belongs to another index.
    """
    names = dense_names(folder)
    if not names:
        return {}
    from indexer.search.dense_part import DensePart
    from indexer.search.lazy import LazySearcher

    def lazily(part: DensePart) -> LazyDense:
        return LazySearcher(
            sparse,
            lambda sparse: part.searcher(sparse.images),
            lambda sparse: part.count(sparse.images),
        )

    return {name: lazily(DensePart(folder, name, sparse.manifest)) for name in names}

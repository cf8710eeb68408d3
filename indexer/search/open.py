"""Which engine answers from an index folder: Lucene itself, or the columns made of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from indexer.columns.manifest import columns_fit, has_columns
from indexer.manifest import Manifest
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError

Engine = Literal["auto", "lucene", "columns"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

log = logging.getLogger(__name__)


def open_searcher(
    index: Path, engine: str = "auto", progress: Callable[[int], None] = lambda done: None
) -> LuceneSearcher:
    """Open an index folder.

    Args:
        index: the folder.
        engine: "columns", which are made out of Lucene where they are missing; "lucene"; or
            "auto": columns where the folder has them. Columns of another state of the Lucene
            index are made anew.
        progress: called with the images that making columns has laid out so far.

    Raises:
        InputError: if the folder is no index, or a damaged one, or there is no such engine.
    """
    if engine not in ENGINES:
        raise InputError(f"--engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    Manifest.open(index)
    # numba takes its time to load, which those who search in Lucene need not spend.
    if engine == "lucene" or (engine == "auto" and not has_columns(index)):
        return LuceneSearcher(index)
    from indexer.search.columns import ColumnSearcher

    if not has_columns(index) or not columns_fit(index):
        from indexer.columns.folder import rebuild_columns

        log.warning("%s: making its columns out of Lucene", index)
        rebuild_columns(index, progress)
    return ColumnSearcher(index)

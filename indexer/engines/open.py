"""The one way to open an index folder for searching: by any engine, or any of its dense models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from indexer.dense.manifest import SPARSE, dense_names, members_of
from indexer.engines.columns import ColumnsEngine
from indexer.engines.shards import LocalShards, ShardsEngine
from indexer.manifest import Manifest, index_folders, is_sharded
from indexer.search.reader import Language
from indexer.search.rerank import Reranker
from indexer.search.searcher import Searcher
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import WordTables

if TYPE_CHECKING:
    from indexer.engines.dense import DenseEngine

EngineName = Literal["columns", "lucene"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


def read_language(folder: Path) -> Language:
    """What the index of a folder, or all its shards, read queries with.

    Raises InputError if the folder is not an index, is damaged, or a shard is of another index.
    """
    folders = index_folders(folder)
    manifests = [Manifest.open(one) for one in folders]
    first = manifests[0]
    for one, manifest in zip(folders, manifests, strict=True):
        shared = (manifest.vocabulary, manifest.scale, manifest.bits)
        if shared != (first.vocabulary, first.scale, first.bits):
            raise InputError(
                f"{one} is no shard of the index of {folders[0]}: its vocabulary, scale or bits "
                "are others; put the right folder back"
            )
    tokenizer = TermTokenizer.from_folder(folders[0])
    first.check_vocabulary(folders[0], tokenizer.vocabulary_hash)
    reranker = Reranker(folders[0], first.rerank) if first.rerank else None
    return Language(tokenizer, WordTables.reading(folders[0]), first.bits, reranker)


def open_index(folder: str | Path, engine: str = "columns") -> Searcher:
    """Open the inverted index of an index folder, with one of `ENGINES`.

    Raises InputError if the folder is not an index or is damaged, or the engine is unknown.
    """
    folder = Path(folder)
    if engine not in ENGINES:
        raise InputError(f"--engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    try:
        return _open(folder, engine)
    except (InputError, FileNotFoundError):  # perhaps of one that was replaced meanwhile
        return _open(folder, engine)


def _open(folder: Path, engine: str) -> Searcher:
    language, folders = read_language(folder), index_folders(folder)
    folders = folders if is_sharded(folder) else [folder]
    if engine == "lucene":
        from indexer.engines.lucene import LuceneEngine  # which loads what needs Java

        vocabulary = language.tokenizer.vocabulary
        engines: list[ColumnsEngine] = [LuceneEngine(one, vocabulary) for one in folders]
    else:
        engines = [ColumnsEngine(Snapshot.open(one)) for one in folders]

    def prepare() -> None:
        for one in engines:
            one.snapshot.read_ahead()

    opened = ShardsEngine(LocalShards(engines)) if is_sharded(folder) else engines[0]
    return Searcher(opened, language, prepare=prepare, reopen=partial(open_index, folder, engine))


def open_backend(folder: Path, name: str = SPARSE, engine: str = "columns") -> Searcher:
    """Open one backend of an index folder: "sparta" (the inverted index) or a dense part's name.

    Names of dense parts with "+" between them are the mean of their similarities.

    Raises InputError if the folder is not an index or is damaged, or it has no such backend.
    """
    if name == SPARSE:
        return open_index(folder, engine)
    if len(names := members_of(name, dense_names(folder))) > 1:
        return together([open_backend(folder, one) for one in names])
    from indexer.engines.dense import DenseEngine, DensePart

    part = DensePart(folder, name, Manifest.open(folder))
    part.loaded()
    return Searcher(DenseEngine(part, Snapshot.open(folder)), read_language(folder))


def open_dense(folder: Path, sparse: Searcher) -> dict[str, Searcher]:
    """All dense backends of an index folder by name; each loads its model by its first query.

    Raises InputError if a dense part is damaged or belongs to another index.
    """
    names = dense_names(folder)
    if not names:
        return {}
    from indexer.engines.dense import DenseEngine, DensePart

    manifest, snapshot = Manifest.open(folder), snapshot_of(sparse)
    found = {}
    for name in names:
        part = DensePart(folder, name, manifest)
        engine = DenseEngine(part, snapshot)
        found[name] = Searcher(engine, sparse.language, prepare=part.loaded)
    return found


def together(searchers: Sequence[Searcher]) -> Searcher:
    """The searcher of several dense models of an index; see `EnsembleEngine`."""
    from indexer.engines.dense import EnsembleEngine

    engine = EnsembleEngine([cast("DenseEngine", one.engine) for one in searchers])
    return Searcher(engine, searchers[0].language)


def snapshot_of(searcher: Searcher) -> Snapshot:
    """The commit of an index without shards that a searcher is at."""
    assert isinstance(searcher.engine, ColumnsEngine)
    return searcher.engine.snapshot


def beside(companion: Searcher, sparse: Searcher) -> Searcher:
    """The searcher of a dense model, or of Milvus, over the commit of another searcher."""
    assert isinstance(companion.engine, ColumnsEngine)
    return companion.over(companion.engine.over(snapshot_of(sparse)))

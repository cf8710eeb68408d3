"""Opens an index in shards in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from indexer.manifest import Manifest
from indexer.search.api import ReplacedError
from indexer.search.lucene import LuceneSearcher
from indexer.search.sharded.asking import Asking, Language
from indexer.search.sharded.searcher import ShardedSearcher
from indexer.search.sharded.shards import LocalShards
from indexer.shards import index_folders
from indexer.store.commit import Commit
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import WordTables


class LocalSearcher(ShardedSearcher):
    """Searches shards that are open in this process, each at one commit.

    Attributes:
        commit: of all shards together; its version is the sum of theirs.
        manifest: of the first shard.
    """

    def __init__(
        self, asking: Asking, shards: LocalShards, reopen: Callable[[], LocalSearcher]
    ) -> None:
        super().__init__(asking)
        self._local, self._reopen = shards, reopen
        first = shards.searchers[0]
        self.quick, self.engine = first.quick, first.engine
        self.manifest: Manifest = first.manifest
        self.commit = Commit(sum(one.commit.version for one in shards.searchers))

    def refreshed(self) -> LocalSearcher | None:
        """A searcher of the newest commits, None if this one is; see `Follower.refreshed`."""
        try:
            return self.continued()
        except ReplacedError:
            return self._reopen()

    def continued(self) -> LocalSearcher | None:
        """A searcher of commits that continue these; see `Follower.continued`."""
        newer = self._local.continued()
        if newer is None:
            return None
        return LocalSearcher(self._asking.over(newer), newer, self._reopen)

    def warm_up(self) -> None:
        """Warm up every shard, and learn which terms and fields there are."""
        for searcher in self._local.searchers:
            searcher.warm_up()
        super().warm_up()

    def prepare_explaining(self) -> None:
        """As of every shard; see `Preparable`."""
        for searcher in self._local.searchers:
            searcher.prepare_explaining()


def open_sharded(folder: Path, open_shard: Callable[[Path], LuceneSearcher]) -> LocalSearcher:
    """Open all shards of an index folder.

    Args:
        folder: of the divided index.
        open_shard: opens one.

    Raises:
        InputError: if the folder is no divided index, or a shard is damaged or of another index.
    """
    language = read_language(folder)
    shards = LocalShards.open(index_folders(folder), open_shard)
    reopen = partial(open_sharded, folder, open_shard)
    return LocalSearcher(Asking(shards, language), shards, reopen)


def read_language(folder: Path) -> Language:
    """What the shards of an index folder have in common.

    Raises:
        InputError: if they have not, or one is damaged.
    """
    folders = index_folders(folder)
    manifests = [Manifest.open(one) for one in folders]
    first = manifests[0]
    for one, manifest in zip(folders, manifests, strict=True):
        if _shared(manifest) != _shared(first):
            raise InputError(
                f"{one} is no shard of the index of {folders[0]}: its vocabulary, scale or bits "
                "are others; put the right folder back"
            )
    tokenizer = WordPieceTokenizer.from_folder(folders[0])
    first.check_vocabulary(folders[0], tokenizer.vocabulary_hash)
    return Language(tokenizer, WordTables.open(folders[0]), first.bits)


def _shared(manifest: Manifest) -> tuple[str, float, int]:
    return manifest.vocabulary, manifest.scale, manifest.bits

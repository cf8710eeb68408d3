"""Searches the Lucene index that a build or a merge wrote beside the segments."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from indexer.engines.columns import OF_SEGMENTS, ColumnsEngine, Mask
from indexer.lucene.jvm import (
    PACKAGES,
    declare,
    in_turn,
    java,
    java_errors,
    java_path,
    lucene_installed,
    start,
)
from indexer.lucene.writer import CONTENTS
from indexer.manifest import LUCENE
from indexer.search.engine import Plan
from indexer.store.commit import COMMIT, Commit, lucene_commit, read_commit
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.extras import check_installed, require

if TYPE_CHECKING:
    from pyserini.search.lucene import LuceneImpactSearcher

# Larger indexes are checked by `sparta verify` alone: a search must not read gigabytes to open.
CHECKED_AT_OPENING = 2**26
# Lucene ends every file with a CRC-32 of all before it, in eight bytes, high byte first.
CHECKSUM_BYTES = 8
AT_ONCE = 2**20  # bytes
AGAIN = "write it again with `sparta merge INDEX`, or `sparta export`"
COUNTED = 1000  # hits, until which Lucene scores all; as in its `IndexSearcher.search`


def open_lucene(index: Path, commit: Commit) -> LuceneIndex:
    """Open the Lucene index of an index folder, at a commit; small ones are checked for damage.

    Raises InputError if there is none or it is damaged, Lucene is not installed, or it is of
    another commit.
    """
    folder = index / LUCENE
    if not folder.is_dir():
        check_installed("lucene", *PACKAGES)
        raise InputError(f"{index} has no Lucene index: make one with `sparta merge {index}`")
    if sum(path.stat().st_size for path in folder.iterdir()) <= CHECKED_AT_OPENING:
        _check_checksums(folder)
    found = LuceneIndex(folder)
    if found.commit != commit.name:
        found.close()
        raise InputError(
            f"{folder} is not of commit {commit.version:,}, which the index is at: write it again "
            f"with `sparta merge {index}`, or search with --engine columns"
        )
    return found


def open_pyserini(folder: Path, counts: Callable[[str], dict[str, int]]) -> LuceneImpactSearcher:
    """Pyserini's searcher of a Lucene folder, with the counts of a query's terms.

    Raises InputError if Lucene is not installed.
    """
    start()  # Java with our options, before Pyserini looks for one
    key = "OPENAI_API_KEY"  # without one, importing Pyserini fails
    known = os.environ.get(key)
    os.environ[key] = known or "none"
    try:
        found = require("pyserini.search.lucene").LuceneImpactSearcher
    finally:
        if known is None:
            del os.environ[key]
    # Pyserini would leave out terms that every image has.
    return found(str(folder), SimpleNamespace(encode=counts), min_idf=-1)


def check_lucene(folder: Path) -> None:
    """Check every file of a Lucene index whole, and where Lucene is installed, whether one lacks.

    Raises InputError if it is damaged.
    """
    _check_checksums(folder)
    if lucene_installed():
        LuceneIndex(folder).close()


def _check_checksums(folder: Path) -> None:
    for path in sorted(path for path in folder.iterdir() if path.name != COMMIT):
        left, found = path.stat().st_size - CHECKSUM_BYTES, 0
        with path.open("rb") as file:
            while content := file.read(min(AT_ONCE, max(0, left))):
                found, left = crc32(content, found), left - len(content)
            if left < 0 or found != int.from_bytes(file.read(), "big"):
                raise InputError(f"{path} is damaged: its checksum is wrong; {AGAIN}")


class LuceneIndex:
    """An open index as `LuceneWriter` writes it: terms in, documents and scores out.

    Documents are numbered in the order of the image ids. Safe from any thread. Raises InputError if
    the folder holds no Lucene index that this version of Lucene can read, or Lucene is not
    installed.
    """

    @in_turn
    def __init__(self, folder: Path) -> None:
        self.folder, classes = folder, _classes()
        with java_errors(lambda why: InputError(f"{folder} cannot be opened: {why}; {AGAIN}")):
            directory = java("org.apache.lucene.store.FSDirectory").open(java_path(folder))
            self._reader = java("org.apache.lucene.index.DirectoryReader").open(directory)
        # Every word of a long query counts; Lucene would stop at 1,024.
        classes.searcher.setMaxClauseCount(2**31 - 1)
        self._searcher = classes.searcher(self._reader)
        self._searcher.setSimilarity(java("io.anserini.search.similarity.ImpactSimilarity")())
        # One call builds the whole query, one more reads all hits: a call into Java for each
        # term and each hit would cost as much as the search itself.
        white_space = java("org.apache.lucene.analysis.core.WhitespaceAnalyzer")
        self._parser = classes.parser(white_space())
        self._json = classes.json()
        # Which commit of ours the images are of, as its writer was given it.
        self.commit: dict[str, str] = self._plain(self._reader.getIndexCommit().getUserData())

    @in_turn
    def top(
        self, terms: str, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]]:
        """The k documents with the largest sums of count × impact, falling, ties by image id.

        `terms` of the query have white space between them; one that is repeated counts so often.
        """
        query = self._parser.createBooleanQuery(CONTENTS, terms)
        if query is None:  # no term
            return []
        k = k if allowed is None else min(k, int(np.count_nonzero(allowed)))
        if not k:
            return []
        with java_errors(lambda why: InputError(f"{self.folder} is damaged ({why}): {AGAIN}")):
            if allowed is None:
                found = self._searcher.search(query, k)
            else:
                found = self._search_allowed(query, k, allowed)
        return [(hit["doc"], hit["score"]) for hit in self._plain(found)["scoreDocs"]]

    def _search_allowed(self, query: Any, k: int, allowed: NDArray[np.bool_]) -> Any:
        """Lucene's `TopDocs` of the k best documents that are allowed.

        Lucene passes over deleted documents by a bit for each; these bits are set for one search.
        """
        collector = _classes().collector.create(k, COUNTED)
        searcher, leaves = self._searcher, self._reader.leaves()
        weight = searcher.createWeight(searcher.rewrite(query), collector.scoreMode(), 1.0)
        for leaf in map(leaves.get, range(leaves.size())):  # one, or none in an empty index
            scorer = weight.bulkScorer(leaf)
            if scorer is not None:
                words = np.zeros(-(-len(allowed) // 64), np.int64)
                packed = np.packbits(allowed, bitorder="little")
                words.view(np.uint8)[: len(packed)] = packed
                bits = _classes().bit_set(tuple(words.tolist()), len(allowed))
                scorer.score(collector.getLeafCollector(leaf), bits, 0, len(allowed))
        return collector.topDocs()

    def _plain(self, value: Any) -> Any:
        """A Java object as Python's, by one call."""
        return json.loads(self._json.writeValueAsString(value))

    @in_turn
    def close(self) -> None:
        """Close the files."""
        self._reader.close()


@cache
def _classes() -> SimpleNamespace:
    """The Java classes of a search, with the members it calls."""
    search, index = "org/apache/lucene/search/", "org/apache/lucene/index/"
    util, leaf = "org/apache/lucene/util/", "Lorg/apache/lucene/index/LeafReaderContext;"
    searcher = declare(
        search + "IndexSearcher",
        f"(L{index}IndexReader;)V",
        search=f"(L{search}Query;I)L{search}TopDocs;",
        rewrite=f"(L{search}Query;)L{search}Query;",
        createWeight=f"(L{search}Query;L{search}ScoreMode;F)L{search}Weight;",
        setSimilarity=f"(L{search}similarities/Similarity;)V",
        setMaxClauseCount="static (I)V",
    )
    parser = declare(
        util + "QueryBuilder",
        "(Lorg/apache/lucene/analysis/Analyzer;)V",
        createBooleanQuery=f"(Ljava/lang/String;Ljava/lang/String;)L{search}Query;",
    )
    jackson = "com/fasterxml/jackson/databind/"
    mapper = declare(
        jackson + "ObjectMapper",
        configOverride=f"(Ljava/lang/Class;)L{jackson}cfg/MutableConfigOverride;",
        writeValueAsString="(Ljava/lang/Object;)Ljava/lang/String;",
    )
    collector = declare(
        search + "TopScoreDocCollector",
        create=f"static (II)L{search}TopScoreDocCollector;",
        scoreMode=f"()L{search}ScoreMode;",
        getLeafCollector=f"({leaf})L{search}LeafCollector;",
        topDocs=f"()L{search}TopDocs;",
    )
    # Declared so that what comes back is not looked into member by member.
    declare(search + "Weight", bulkScorer=f"({leaf})L{search}BulkScorer;")
    declare(search + "BulkScorer", score=f"(L{search}LeafCollector;L{util}Bits;II)I")
    for name in ("BooleanQuery", "LeafCollector", "ScoreMode", "TopDocs"):
        declare(search + name)
    bit_set = declare(util + "FixedBitSet", "([JI)V")
    return SimpleNamespace(
        searcher=searcher, parser=parser, json=mapper, collector=collector, bit_set=bit_set
    )


log = logging.getLogger(__name__)


class LuceneEngine(ColumnsEngine):
    """Lucene finds and scores images; all else is answered by the one segment of their commit.

    That segment is kept until a merge writes Lucene's index anew: what is written since is not
    found before. Both number the images in the order of their ids. Raises InputError if there is no
    Lucene index, or it is damaged.
    """

    can = OF_SEGMENTS
    name = "lucene"

    def __init__(self, folder: Path, vocabulary: list[str]) -> None:
        super().__init__(Snapshot.open(folder, lucene_commit(folder)))
        self._folder, self._vocabulary = folder, vocabulary
        self._lucene = open_lucene(folder, self.snapshot.commit)
        if behind := read_commit(folder).changes - self.snapshot.commit.changes:
            log.warning(
                "%s: Lucene's index is %d changes behind: bring it up to date with `sparta merge`",
                *(folder, behind),
            )

    def _best(self, plan: Plan, k: int, allowed: Mask | None) -> tuple[list[int], list[float]]:
        terms = " ".join(
            " ".join([self._vocabulary[term]] * count) for term, count in plan.terms.items()
        )
        found = self._lucene.top(terms, k, allowed) if terms else []
        return [document for document, _ in found], [score for _, score in found]

    def refreshed(self) -> LuceneEngine | None:
        """The engine of Lucene's newest index; see `Engine.refreshed`."""
        if lucene_commit(self._folder) in (None, self.snapshot.commit):
            return None
        return LuceneEngine(self._folder, self._vocabulary)

    def close(self) -> None:
        """Close Lucene's files."""
        self._lucene.close()

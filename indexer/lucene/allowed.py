"""Searches Lucene among some of its documents: exact, however few they are.

Lucene's own way to leave documents out is a bit for each, by which it passes over deleted ones; the
same bits are set here for a single search, without a class of Java of our own.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.lucene.jvm import declare

COUNTED = 1000  # hits, until which Lucene scores all; as in its `IndexSearcher.search`


class Leaf(NamedTuple):
    """One segment of an open index.

    Attributes:
        name: which no other segment of the index ever has.
        context: Lucene's `LeafReaderContext`.
        documents: their numbers in the whole index.
    """

    name: str
    context: Any
    documents: slice


def leaves_of(reader: Any) -> list[Leaf]:
    """The segments of an `IndexReader`, in order."""
    from jnius import cast

    segment_reader = _classes().segment_reader
    contexts = reader.leaves()
    found = []
    for number in range(contexts.size()):
        context = contexts.get(number)
        segment = cast(segment_reader, context.reader())
        documents = slice(context.docBase, context.docBase + segment.maxDoc())
        found.append(Leaf(segment.getSegmentName(), context, documents))
    return found


def live_documents(reader: Any) -> NDArray[np.bool_] | None:
    """[documents] whether each is still there; None if none was deleted."""
    classes = _classes()
    live = classes.bits.getLiveDocs(reader)
    if live is None:
        return None
    words = np.array(classes.bit_set.copyOf(live).getBits(), np.int64)
    flags = np.unpackbits(words.view(np.uint8), bitorder="little", count=reader.maxDoc())
    return flags.astype(np.bool_)


def search_allowed(
    searcher: Any,
    leaves: list[Leaf],
    query: Any,
    k: int,
    allowed: NDArray[np.bool_],
    order: Any = None,
) -> Any:
    """Lucene's `TopDocs` of the k best documents that are allowed.

    Args:
        searcher: Lucene's `IndexSearcher`.
        leaves: of its reader.
        query: of Lucene.
        k: documents at most, and at most as many as are allowed.
        allowed: [documents], none of them deleted.
        order: Lucene's `Sort` of the answer; None for score, then document number.
    """
    if order is None:
        collector = _classes().collector.create(k, COUNTED)
    else:
        collector = _classes().sorted_collector.create(order, k, COUNTED)
    weight = searcher.createWeight(searcher.rewrite(query), collector.scoreMode(), 1.0)
    for leaf in leaves:
        own = allowed[leaf.documents]
        scorer = weight.bulkScorer(leaf.context)
        if scorer is not None:
            scorer.score(collector.getLeafCollector(leaf.context), _bit_set(own), 0, len(own))
    return collector.topDocs()


def _bit_set(flags: NDArray[np.bool_]) -> Any:
    words = np.zeros(-(-len(flags) // 64), np.int64)
    packed = np.packbits(flags, bitorder="little")
    words.view(np.uint8)[: len(packed)] = packed
    return _classes().bit_set(tuple(words.tolist()), len(flags))


class _Classes(NamedTuple):
    collector: Any
    sorted_collector: Any
    bit_set: Any
    bits: Any
    segment_reader: Any


@cache
def _classes() -> _Classes:
    """The Java classes of a search among allowed documents, with the members it calls."""
    search, index = "org/apache/lucene/search/", "org/apache/lucene/index/"
    util = "org/apache/lucene/util/"
    leaf = f"L{index}LeafReaderContext;"
    declare(index + "LeafReaderContext", docBase="I", reader=f"()L{index}LeafReader;")
    declare(index + "LeafReader")
    segment_reader = declare(
        index + "SegmentReader", maxDoc="()I", getSegmentName="()Ljava/lang/String;"
    )
    declare(search + "ScoreMode")
    declare(search + "LeafCollector")
    declare(search + "Weight", bulkScorer=f"({leaf})L{search}BulkScorer;")
    declare(
        search + "BulkScorer",
        score=f"(L{search}LeafCollector;L{util}Bits;II)I",
    )
    collector = declare(
        search + "TopScoreDocCollector",
        create=f"static (II)L{search}TopScoreDocCollector;",
        scoreMode=f"()L{search}ScoreMode;",
        getLeafCollector=f"({leaf})L{search}LeafCollector;",
        topDocs=f"()L{search}TopDocs;",
    )
    sorted_collector = declare(
        search + "TopFieldCollector",
        create=f"static (L{search}Sort;II)L{search}TopFieldCollector;",
        scoreMode=f"()L{search}ScoreMode;",
        getLeafCollector=f"({leaf})L{search}LeafCollector;",
        topDocs=f"()L{search}TopFieldDocs;",
    )
    declare(util + "Bits")
    bit_set = declare(
        util + "FixedBitSet",
        "([JI)V",
        copyOf=f"static (L{util}Bits;)L{util}FixedBitSet;",
        getBits="()[J",
    )
    bits = declare(
        index + "MultiBits",
        getLiveDocs=f"static (L{index}IndexReader;)L{util}Bits;",
    )
    return _Classes(collector, sorted_collector, bit_set, bits, segment_reader)

"""A Lucene index of given postings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from indexer.lucene.parallel_writer import LuceneWriter
from indexer.postings import Postings


def write_lucene(folder: Path, vocabulary: Sequence[str], shards: Iterable[Postings]) -> None:
    """Write some images as an index of one segment."""
    with LuceneWriter(folder, vocabulary, 0) as writer:
        for shard in shards:
            writer.add(shard)

"""A Lucene index of given postings, and one from which images are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from indexer.lucene.jvm import declare, java
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.postings import Postings


def write_lucene(folder: Path, vocabulary: Sequence[str], shards: Iterable[Postings]) -> None:
    """Write some images as an index of one segment."""
    with LuceneWriter(folder, vocabulary, 0) as writer:
        for shard in shards:
            writer.add(shard)


def edit_lucene(folder: Path, parts: Iterable[Path], deleted: Iterable[str]) -> None:
    """Add the segments of other indexes, then delete images, without a merge."""
    config = java("org.apache.lucene.index.IndexWriterConfig")()
    config.setMergePolicy(java("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    index, directory = "org/apache/lucene/index/", "Lorg/apache/lucene/store/Directory;"
    writer = declare(
        index + "IndexWriter",
        f"({directory}L{index}IndexWriterConfig;)V",
        addIndexes=f"([{directory})J",
        deleteDocuments=f"([L{index}Term;)J",
        close="()V",
    )(_directory(folder), config)
    writer.addIndexes([_directory(part) for part in parts])
    term = java("org.apache.lucene.index.Term")
    writer.deleteDocuments([term("id", image_id) for image_id in deleted])
    writer.close()


def _directory(folder: Path) -> object:
    path = java("java.nio.file.Paths").get(str(folder))
    return java("org.apache.lucene.store.FSDirectory").open(path)

"""A Lucene index of several segments with deleted documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.lucene.jvm import declare, java
from indexer.lucene.reader import LuceneIndex
from indexer.postings import Postings
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.lucene.written import write_lucene
from tests.indexer.random_postings import shards_of

DELETED = [0, 17, 99, 100, 250, 299]


def _directory(folder: Path) -> object:
    path = java("java.nio.file.Paths").get(str(folder))
    return java("org.apache.lucene.store.FSDirectory").open(path)


@pytest.fixture(scope="module")
def segments(
    tmp_path_factory: pytest.TempPathFactory, postings: Postings, tokenizer: WordPieceTokenizer
) -> Iterator[LuceneIndex]:
    """Three segments, each of which has lost images."""
    folder = tmp_path_factory.mktemp("segments")
    parts = []
    for number, shard in enumerate(shards_of(postings, 100)):
        parts.append(folder / str(number))
        write_lucene(parts[-1], tokenizer.vocabulary, [shard])
    config = java("org.apache.lucene.index.IndexWriterConfig")()
    config.setMergePolicy(java("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    index = "org/apache/lucene/index/"
    writer = declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        addIndexes="([Lorg/apache/lucene/store/Directory;)J",
        deleteDocuments=f"([L{index}Term;)J",
        close="()V",
    )(_directory(folder / "all"), config)
    writer.addIndexes([_directory(part) for part in parts])
    term = java("org.apache.lucene.index.Term")
    writer.deleteDocuments([term("id", postings.ids[document]) for document in DELETED])
    writer.close()
    lucene = LuceneIndex(folder / "all")
    yield lucene
    lucene.close()

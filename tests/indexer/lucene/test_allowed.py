"""A Lucene index of several segments with deleted documents, searched among some of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.lucene.jvm import declare, java
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.segment_writer import write_segment
from indexer.postings import Postings
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.bitmaps import bitmaps
from tests.indexer.random_postings import shards_of
from tests.indexer.vocabulary import COMMON, WORDS
from tests.reference.searcher import ReferenceSearcher

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
        write_segment(parts[-1], tokenizer.vocabulary, [shard])
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


def test_documents_that_were_deleted_are_not_live(segments: LuceneIndex, index: Path) -> None:
    assert segments.live is not None
    assert np.flatnonzero(~segments.live).tolist() == DELETED
    assert (len(segments), segments.documents) == (294, 300)
    whole = LuceneIndex(index / "lucene")
    assert whole.live is None
    whole.close()


@pytest.mark.parametrize("few", [0, 1000])
@settings(max_examples=60)
@given(
    words=st.lists(st.sampled_from([*WORDS, COMMON]), min_size=1, max_size=12),
    k=st.integers(1, 320),
    allowed=bitmaps(300),
)
def test_deleted_documents_are_never_found(
    segments: LuceneIndex,
    exact: ReferenceSearcher,
    few: int,
    words: list[str],
    k: int,
    allowed: NDArray[np.bool_] | None,
) -> None:
    assert segments.live is not None
    both = segments.live if allowed is None else allowed & segments.live
    counts = {word: words.count(word) for word in words}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.lucene.reader.FEW", few)
        found = segments.top(" ".join(words), k, allowed)
    assert found == exact.top(counts, k, both)

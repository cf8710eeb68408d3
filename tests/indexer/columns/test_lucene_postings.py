"""Columns of a Lucene index from which images were deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from indexer.columns.builder import lay_out
from indexer.columns.index import ColumnIndex
from indexer.columns.lucene_postings import read_images, read_rows
from indexer.lucene.jvm import declare, java
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from indexer.postings import Postings
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.columns.corpus import top
from tests.indexer.vocabulary import COMMON


def delete(folder: Path, image_ids: list[str]) -> None:
    directory = java("org.apache.lucene.store.FSDirectory").open(
        java("java.nio.file.Paths").get(str(folder))
    )
    settings = java("org.apache.lucene.index.IndexWriterConfig")()
    settings.setMergePolicy(java("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    index = "org/apache/lucene/index/"
    writer = declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        deleteDocuments=f"([L{index}Term;)J",
        close="()V",
    )(directory, settings)
    term = java("org.apache.lucene.index.Term")
    writer.deleteDocuments([term("id", image_id) for image_id in image_ids])
    writer.close()


def test_deleted_images_keep_their_numbers_and_are_never_found(
    index: Path, postings: Postings, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    folder = shutil.copytree(index / LUCENE, tmp_path / "lucene")
    gone = [3, 77, 299]
    delete(folder, [postings.ids[row] for row in gone])
    lucene = LuceneIndex(folder)
    assert (len(lucene), lucene.documents) == (297, 300)
    images = [image for batch in read_images(lucene, 128) for image in batch]
    assert [image.image_id for image in images] == postings.ids

    vocabulary = tokenizer.vocabulary
    (tmp_path / "work").mkdir()
    rows = read_rows(lucene, vocabulary, 8, tmp_path / "work")
    kept = np.diff(postings.starts)
    kept[gone] = 0
    np.testing.assert_array_equal(np.diff(rows.starts), kept)
    (tmp_path / "columns").mkdir()
    lay_out(tmp_path / "columns", rows)
    columns = ColumnIndex.open(tmp_path / "columns")
    ids = {term: i for i, term in enumerate(vocabulary)}
    for words in ([COMMON], ["dog", "beach", COMMON, COMMON], ["red", "cat", "##s"]):
        terms = {ids[word]: words.count(word) for word in words}
        right = [(d, int(score)) for d, score in lucene.top(" ".join(words), 300)]
        assert top(columns, terms, 300) == right
        assert not {document for document, _ in right} & set(gone)
    lucene.close()

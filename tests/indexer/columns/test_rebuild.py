"""Columns read back from Lucene: those that were built, without the images that it has deleted."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.columns.builder import lay_out
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import Columns
from indexer.columns.lucene_postings import read_images, read_rows
from indexer.columns.manifest import FOLDER, FORMAT_VERSION, ColumnManifest, columns_fit
from indexer.columns.rebuild import rebuild_columns
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE, describe_parts
from indexer.postings import Postings
from indexer.search.api import UnknownImageError
from indexer.search.open import open_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.columns.corpus import top
from tests.indexer.lucene.written import edit_lucene
from tests.indexer.vocabulary import COMMON


def test_columns_read_back_are_those_that_were_built(copy: Path, index: Path) -> None:
    shutil.rmtree(copy / FOLDER)
    laid_out: list[tuple[str, int, int]] = []
    rebuild_columns(copy, lambda *step: laid_out.append(step))
    assert laid_out[-1] == ("columns", 300, 300)
    assert sorted(path.name for path in copy.iterdir()) == sorted(p.name for p in index.iterdir())
    built, again = (Columns.map(folder / FOLDER) for folder in (index, copy))
    for name, one, other in zip(Columns._fields, built, again, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert columns_fit(copy)


def test_columns_of_another_format_can_be_made_again(index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index") / FOLDER
    manifest = folder / "manifest.json"
    own, former = (f'"format_version": {number}' for number in (FORMAT_VERSION, 2))
    manifest.write_text(manifest.read_text().replace(own, former))
    with pytest.raises(InputError, match=r"has index format 2, .*: delete .* again from Lucene"):
        ColumnManifest.open(folder)


def test_deleted_images_keep_their_numbers_and_are_never_found(
    index: Path, postings: Postings, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    folder = shutil.copytree(index / LUCENE, tmp_path / "lucene")
    gone = [3, 77, 299]
    edit_lucene(folder, [], [postings.ids[row] for row in gone])
    lucene = LuceneIndex(folder)
    assert (len(lucene), lucene.documents) == (297, 300)
    images = [image for batch in read_images(lucene, 128) for image in batch]
    assert [image.image_id for image in images] == postings.ids

    vocabulary = tokenizer.vocabulary
    (tmp_path / "work").mkdir()
    rows = read_rows(lucene, vocabulary, 8, tmp_path / "work")
    kept = np.diff(postings.starts)
    kept[gone] = 0
    np.testing.assert_array_equal(rows.lengths, kept)
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


def test_the_columns_of_an_index_do_not_find_what_lucene_has_deleted(
    copy: Path, index: Path, postings: Postings
) -> None:
    shutil.rmtree(copy / FOLDER)
    edit_lucene(copy / LUCENE, [], [postings.ids[7]])
    manifest = Manifest.open(index)
    replace(manifest, images=299, parts=describe_parts(copy)).save(copy)
    with closing(open_index(copy, "columns")) as searcher:
        assert len(searcher) == 299
        assert searcher.metadata(postings.ids[8]) == postings.metadata[8]
        with pytest.raises(UnknownImageError):
            searcher.metadata(postings.ids[7])

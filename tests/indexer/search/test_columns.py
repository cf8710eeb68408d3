"""An index folder searched through its columns, and those read back out of Lucene."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns.folder import rebuild_columns
from indexer.columns.layout import Columns
from indexer.columns.manifest import FOLDER, columns_fit, has_columns
from indexer.postings import Postings
from indexer.search.api import UnknownImageError
from indexer.search.columns import ColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.conftest import COMMON, RARE, random_postings
from tests.indexer.search.test_lucene import VOCABULARY, answer
from tests.reference.searcher import ReferenceSearcher


@pytest.fixture(scope="module")
def columns(index: Path) -> Iterator[ColumnSearcher]:
    searcher = ColumnSearcher(index)
    yield searcher
    searcher.close()


@settings(max_examples=200)
@given(words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=25), k=st.integers(1, 320))
def test_answers_equal_the_reference(
    columns: ColumnSearcher, exact: ReferenceSearcher, words: list[str], k: int
) -> None:
    query = " ".join(words)
    found, right = columns.search(query, k), exact.search(query, k)
    assert answer(found) == answer(right)
    assert [hit.metadata for hit in found.hits] == [hit.metadata for hit in right.hits]
    assert found.unknown == right.unknown


def test_the_rest_is_as_with_lucene(columns: ColumnSearcher, lucene: LuceneSearcher) -> None:
    assert len(columns) == len(lucene)
    image_id = columns.search("dog beach", 1).hits[0].image_id
    assert columns.explain("dog beach", image_id) == lucene.explain("dog beach", image_id)
    assert columns.metadata(image_id) == lucene.metadata(image_id)
    columns.warm_up()
    with pytest.raises(UnknownImageError):
        columns.metadata("nowhere.jpg")
    with pytest.raises(ValueError, match="at least 1"):
        columns.search("dog", 0)


def test_columns_read_back_are_those_that_were_built(index: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index, tmp_path / "index")
    shutil.rmtree(copy / FOLDER)
    laid_out: list[tuple[str, int, int]] = []
    rebuild_columns(copy, lambda *step: laid_out.append(step))
    assert laid_out[-1] == ("columns", 300, 300)
    assert sorted(path.name for path in copy.iterdir()) == sorted(p.name for p in index.iterdir())
    built, again = (Columns.map(folder / FOLDER) for folder in (index, copy))
    for name, one, other in zip(Columns._fields, built, again, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert columns_fit(copy)


def test_the_engine_is_chosen(index: Path, tmp_path: Path, exact: ReferenceSearcher) -> None:
    copy = shutil.copytree(index, tmp_path / "index")
    assert isinstance(open_index(copy), ColumnSearcher)
    assert type(open_index(copy, "lucene")) is LuceneSearcher
    shutil.rmtree(copy / FOLDER)
    assert type(open_index(copy)) is LuceneSearcher
    assert not has_columns(copy)
    made = open_index(copy, "columns")
    assert isinstance(made, ColumnSearcher)
    assert answer(made.search("dog beach", 7)) == answer(exact.search("dog beach", 7))
    with pytest.raises(InputError, match="auto, lucene, columns"):
        open_index(copy, "fast")


def test_columns_of_another_lucene_index_are_made_anew(
    index: Path,
    make_index: Callable[[Path, Postings], Path],
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    postings = random_postings(tokenizer, 300, seed=5)
    other = make_index(tmp_path / "other", postings)
    shutil.rmtree(other / FOLDER)
    shutil.copytree(index / FOLDER, other / FOLDER)
    assert not columns_fit(other)
    with caplog.at_level(logging.WARNING):
        found = open_index(other).search("dog beach cat", 20)
    assert "from Lucene" in caplog.text
    assert answer(found) == answer(
        ReferenceSearcher(postings, tokenizer).search("dog beach cat", 20)
    )
    assert columns_fit(other)


def test_damaged_columns_are_named(index: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index, tmp_path / "index")
    (copy / FOLDER / "dense.npy").write_bytes(b"short")
    with pytest.raises(InputError, match=r"dense\.npy"):
        open_index(copy)
    (copy / FOLDER / "dense.npy").unlink()
    with pytest.raises(InputError, match=r"dense\.npy.* missing"):
        open_index(copy)


def test_words_that_mean_nothing(columns: ColumnSearcher) -> None:
    found = columns.search(f"qqq {RARE}", 10)
    assert (found.hits, found.unknown) == ([], ["qqq", RARE])
    assert len(columns.search(COMMON, 1000).hits) == 300

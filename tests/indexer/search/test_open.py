"""Opening an index by engine, and its backends by name."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.columns.manifest import FOLDER, columns_fit, has_columns
from indexer.postings import Postings
from indexer.search.columns import ColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_backend, open_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import random_postings
from tests.indexer.search.queries import answer
from tests.reference.searcher import ReferenceSearcher


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
    (copy / FOLDER / "levels.npy").write_bytes(b"short")
    with pytest.raises(InputError, match=r"levels\.npy"):
        open_index(copy)
    (copy / FOLDER / "levels.npy").unlink()
    with pytest.raises(InputError, match=r"levels\.npy.* missing"):
        open_index(copy)


def test_an_index_without_dense_parts_says_so(index: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no dense part 'vse-inf' .* `sparta index-dense FEATURES --m"
    ):
        open_backend(index, "vse-inf")
    with pytest.raises(InputError, match="has 0 dense parts, an ensemble needs two"):
        open_backend(index, "ensemble")
    with pytest.raises(InputError, match="is not an index"):
        open_backend(tmp_path, "vse-inf")

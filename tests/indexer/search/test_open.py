"""An index is opened by engine, with its fields, and its backends by name."""

from __future__ import annotations

import logging
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from indexer.columns.manifest import (
    FOLDER,
    ColumnManifest,
    columns_fit,
    has_columns,
    lucene_fingerprint,
)
from indexer.columns.rebuild import rebuild_columns
from indexer.search.columns import ColumnSearcher

from indexer.fields.part import FIELDS
from indexer.fields.store import DECLARED
from indexer.filters.text import parse_filter
from indexer.lucene.reader import LuceneIndex
from indexer.parts import describe_parts
from indexer.postings import Postings
from indexer.search.api import UnavailableError
from indexer.search.fields import open_fields
from indexer.search.lazy import LazySearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from sparta.errors import InputError
from tests.indexer.random_postings import MakeIndex, random_postings, write_postings
from tests.indexer.search.queries import answer
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.filters import lets_through
from tests.reference.searcher import ReferenceSearcher


def test_the_engine_is_chosen(copy: Path, exact: ReferenceSearcher) -> None:
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
    index: Path, make_index: MakeIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    postings = random_postings(TOKENIZER, 300, seed=5)
    other = make_index(tmp_path / "other", postings)
    shutil.rmtree(other / FOLDER)
    shutil.copytree(index / FOLDER, other / FOLDER)
    assert not columns_fit(other)
    with caplog.at_level(logging.WARNING):
        found = open_index(other).search("dog beach cat", 20)
    assert "from Lucene" in caplog.text
    assert answer(found) == answer(
        ReferenceSearcher(postings, TOKENIZER).search("dog beach cat", 20)
    )
    assert columns_fit(other)


def test_damaged_columns_are_named(copy: Path) -> None:
    (copy / FOLDER / "levels.npy").write_bytes(b"short")
    with pytest.raises(InputError, match=r"levels\.npy"):
        open_index(copy)
    (copy / FOLDER / "levels.npy").unlink()
    with pytest.raises(InputError, match=r"levels\.npy.* missing"):
        open_index(copy)


FILTERS = [
    "width:<100",
    "width:7|8|299 OR folder:a path:00012",
    "-width:*",
    "path:é -width:10..290",
]


@pytest.mark.parametrize("engine", ["lucene", "columns"])
@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.usefixtures("either_kernel")
def test_filtered_answers_equal_the_reference(
    index: Path, exact: ReferenceSearcher, postings: Postings, engine: str, text: str
) -> None:
    whole = parse_filter(text)
    searcher = open_index(index, engine)
    allowed = searcher.field_index().allowed(whole)
    images = zip(postings.ids, postings.metadata, strict=True)
    right = [lets_through(whole, {"path": i, "folder": "a", **fields}) for i, fields in images]
    assert allowed.tolist() == right
    for query in ("dog", "the dogs run on a beach"):
        found = searcher.search(query, 40, allowed=allowed)
        assert answer(found) == answer(exact.search(query, 40, allowed=np.array(right)))
    searcher.close()


def test_fields_are_read_from_the_metadata_where_columns_have_none(
    copy: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = parse_filter("width:<100")
    with closing(LuceneIndex(copy / "lucene")) as lucene:
        ready = open_fields(copy, lucene).allowed(whole)
        assert not caplog.records
        (copy / FOLDER / FIELDS).unlink()
        parts = describe_parts(copy / FOLDER)  # of an earlier version
        ColumnManifest.save(copy / FOLDER, lucene_fingerprint(copy), parts)
        assert open_fields(copy, lucene).allowed(whole).tolist() == ready.tolist()
        shutil.rmtree(copy / FOLDER)
        assert open_fields(copy, lucene).allowed(whole).tolist() == ready.tolist()
        assert "reading the fields of all images" in caplog.text
    rebuild_columns(copy)
    assert (copy / FOLDER / FIELDS).read_bytes() == (index / FOLDER / FIELDS).read_bytes()


def test_declared_kinds_remain_without_columns(postings: Postings, tmp_path: Path) -> None:
    words = replace(postings, metadata=[{"code": number} for number in range(len(postings))])
    write_postings(tmp_path / "index", [words], TOKENIZER, kinds={"code": "keyword"})
    assert (tmp_path / "index" / DECLARED).is_file()
    whole = parse_filter("code:1*")
    for _ in range(2):
        with closing(LuceneIndex(tmp_path / "index/lucene")) as lucene:
            assert open_fields(tmp_path / "index", lucene).allowed(whole).sum() == 111
        shutil.rmtree(tmp_path / "index" / FOLDER, ignore_errors=True)


def test_dense_models_share_the_fields_of_the_index(index: Path, exact: ReferenceSearcher) -> None:
    searcher = open_index(index)
    lazy = LazySearcher(searcher, lambda _: exact)
    assert lazy.field_index() is searcher.field_index() is searcher.field_index()
    searcher.close()
    with pytest.raises(UnavailableError, match="have no fields"):
        LazySearcher(exact, lambda _: exact).field_index()

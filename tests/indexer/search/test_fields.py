"""The fields of an index folder, whichever way they are opened."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.columns.manifest import FOLDER, ColumnManifest, lucene_fingerprint
from indexer.columns.rebuild import rebuild_columns
from indexer.fields.part import FIELDS
from indexer.fields.store import DECLARED
from indexer.filters.text import parse_filter
from indexer.lucene.reader import LuceneIndex
from indexer.parts import describe_parts
from indexer.postings import Postings
from indexer.search.api import UnavailableError
from indexer.search.fields import open_fields
from indexer.search.lazy import LazySearcher
from indexer.search.open import open_index
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import write_postings
from tests.indexer.search.queries import answer
from tests.reference.filters import lets_through
from tests.reference.searcher import ReferenceSearcher

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
    index: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = parse_filter("width:<100")
    copy = shutil.copytree(index, tmp_path / "index")
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


def test_declared_kinds_remain(
    tokenizer: WordPieceTokenizer, postings: Postings, tmp_path: Path
) -> None:
    words = replace(postings, metadata=[{"code": number} for number in range(len(postings))])
    write_postings(tmp_path / "index", [words], tokenizer, kinds={"code": "keyword"})
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

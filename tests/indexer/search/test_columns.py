"""An index folder searched through its columns, and those read back out of Lucene."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.live.changes import Delete
from indexer.lucene.commits import newest_commit
from indexer.parts import LUCENE
from indexer.search.api import UnknownImageError
from indexer.search.columns import ColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.bitmaps import bitmaps
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.vocabulary import COMMON, RARE
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


@settings(max_examples=100)
@given(
    words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=25),
    k=st.integers(1, 320),
    allowed=bitmaps(300),
)
def test_answers_among_some_images_equal_the_reference(
    columns: ColumnSearcher,
    exact: ReferenceSearcher,
    words: list[str],
    k: int,
    allowed: NDArray[np.bool_] | None,
) -> None:
    query = " ".join(words)
    right = exact.search(query, k, allowed=allowed)
    assert answer(columns.search(query, k, allowed=allowed)) == answer(right)
    image_id = f"a/{k % 300:05d} é.jpg"
    near = exact.similar(image_id, k, allowed=allowed)
    assert answer(columns.similar(image_id, k, allowed=allowed)) == answer(near)


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


def test_words_that_mean_nothing(columns: ColumnSearcher) -> None:
    found = columns.search(f"qqq {RARE}", 10)
    assert (found.hits, found.unknown) == ([], ["qqq", RARE])
    assert len(columns.search(COMMON, 1000).hits) == 300


def test_java_is_started_by_the_first_explanation_alone(index: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from indexer.search.open import open_index
searcher = open_index(Path({str(index)!r}))
hits = searcher.search("dog {COMMON}", 3).hits
ids = [hit.image_id for hit in hits]
plain = searcher.explain_all("dog {COMMON}", ids, grounded=False)
searcher.field_index()
assert searcher.refreshed() is None
assert "jnius" not in sys.modules, "Java was started"
grounded = searcher.explain_all("dog {COMMON}", ids)
assert "jnius" in sys.modules
assert [one.score for one in plain] == [one.score for one in grounded] == [h.score for h in hits]
searcher.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_explanations_without_grounding_have_the_same_impacts(columns: ColumnSearcher) -> None:
    ids = [hit.image_id for hit in columns.search(f"dog cat {COMMON}", 20).hits]
    grounded = columns.explain_all(f"dog cat {COMMON}", ids)
    plain = columns.explain_all(f"dog cat {COMMON}", ids, grounded=False)
    assert any(term.region is not None for one in grounded for term in one.terms)
    for one in grounded:
        one.terms = [replace(term, region=None, box=None, label=None) for term in one.terms]
    assert plain == grounded


def test_an_index_that_was_written_to_since_is_not_mixed_with_the_former(
    index: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(index, tmp_path / "index")
    with closing(ColumnSearcher(folder)) as searcher:
        image_id = searcher.search(COMMON, 1).hits[0].image_id
        newest = newest_commit(folder / LUCENE)
        assert newest is not None
        newest.write_bytes(newest.read_bytes() + b"x")
        with pytest.raises(InputError, match="was written to or replaced: open it again"):
            searcher.explain(COMMON, image_id)
        assert searcher.search(COMMON, 1).hits[0].image_id == image_id


def test_an_index_that_was_written_to_since_is_followed(index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index")
    with closing(ColumnSearcher(folder)) as searcher:
        assert searcher.refreshed() is None
        first, *others = [hit.image_id for hit in searcher.search(COMMON, 5).hits]
        with open_writer(folder) as writer:
            writer.write([Delete(first)])
        newer = searcher.refreshed()
        assert newer is not None
        with closing(newer):
            assert [hit.image_id for hit in newer.search(COMMON, 4).hits] == others
            assert newer.explain(COMMON, others[0]).score == newer.search(COMMON).hits[0].score
            assert newer.refreshed() is None

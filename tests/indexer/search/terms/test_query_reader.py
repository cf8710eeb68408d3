"""Substitutes for words that the index lacks: both engines against the reference scorer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.postings import Postings
from indexer.query.query import Query
from indexer.search.api import Substitution
from indexer.search.columns import ColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.terms import query_reader
from indexer.search.terms.query_reader import QueryReader
from sparta.substitutes import Substitute, SubstituteTable
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import write_postings
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.vocabulary import COMMON, RARE
from tests.reference.searcher import ReferenceSearcher

# "wolf" is in no vocabulary; a word with postings is never replaced.
TABLE = SubstituteTable(
    {
        RARE: (Substitute("wolf", 0.9), Substitute("cat", 0.75), Substitute("dog", 0.5)),
        "dog": (Substitute("cat", 0.9),),
        "qqq": (Substitute("ball", 0.5),),
    }
)
QUERIES = [RARE, f"{RARE.title()} dog", f"cat {RARE} cat", f"{RARE} {COMMON} {RARE} cat qqq"]


@pytest.fixture(scope="module")
def replacing(
    postings: Postings, tokenizer: WordPieceTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("replacing") / "index"
    write_postings(folder, [postings], tokenizer, substitutes=TABLE)
    return folder


@pytest.fixture(scope="module", params=[LuceneSearcher, ColumnSearcher])
def searcher(replacing: Path, request: pytest.FixtureRequest) -> Iterator[LuceneSearcher]:
    found: LuceneSearcher = request.param(replacing)
    yield found
    found.close()


@pytest.fixture(scope="module")
def right(postings: Postings, tokenizer: WordPieceTokenizer) -> ReferenceSearcher:
    return ReferenceSearcher(postings, tokenizer, TABLE.words)


@settings(max_examples=100)
@given(words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=12), replace=st.booleans())
def test_answers_equal_the_reference(
    searcher: LuceneSearcher, right: ReferenceSearcher, words: list[str], replace: bool
) -> None:
    query = " ".join(words)
    found = searcher.search(query, 30, substitute=replace)
    wanted = right.search(query, 30, substitute=replace)
    assert answer(found) == answer(wanted)
    assert (found.unknown, found.substitutions) == (wanted.unknown, wanted.substitutions)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("replace", [True, False])
def test_explanations_equal_the_reference(
    searcher: LuceneSearcher, right: ReferenceSearcher, query: str, replace: bool
) -> None:
    for hit in searcher.search(query, 20, substitute=replace).hits:
        found = searcher.explain(query, hit.image_id, substitute=replace)
        wanted = right.explain(query, hit.image_id, substitute=replace)
        assert found.score == hit.score == sum(term.score for term in found.terms)
        assert [(t.term, t.word, t.count, t.impact, t.similarity) for t in found.terms] == [
            (t.term, t.word, t.count, t.impact, t.similarity) for t in wanted.terms
        ]


def test_the_best_substitute_with_postings_is_taken(searcher: LuceneSearcher) -> None:
    found = searcher.search(f"{RARE.title()} dog {RARE.title()}")
    assert found.substitutions == [Substitution(RARE.title(), "cat", 0.75)]
    assert found.unknown == []
    assert answer(found) == answer(searcher.search("cat dog cat"))
    plain = searcher.search(f"{RARE} dog", substitute=False)
    assert (plain.substitutions, plain.unknown) == ([], [RARE])
    assert answer(plain) == answer(searcher.search("dog"))


def test_a_term_that_the_query_contains_is_explained_by_that_word(searcher: LuceneSearcher) -> None:
    image_id = searcher.search("cat").hits[0].image_id
    [term] = searcher.explain(f"{RARE} Cat", image_id).terms
    assert (term.word, term.count, term.similarity) == ("Cat", 2, None)
    [term] = searcher.explain(RARE, image_id).terms
    assert (term.word, term.term, term.count, term.similarity) == (RARE, "cat", 1, 0.75)


def test_a_full_cache_is_emptied(
    tokenizer: WordPieceTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_reader, "PART_CACHE", 2)
    reader = QueryReader(tokenizer, lambda: TABLE, lambda term: term in ("dog", "cat", "ball"))
    for _ in range(2):
        read = reader.read(Query.plain(f"dog cat {RARE} ball"), substitute=True)
        assert read.terms == "dog cat cat ball"

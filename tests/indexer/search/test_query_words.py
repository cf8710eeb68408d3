"""Signs, weights and substitutes of queries, against the reference scorer and all impacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexer.search.columns import ColumnSearcher
from numpy.typing import NDArray

from indexer.postings import Postings
from indexer.query.query import Query, QueryError
from indexer.search.api import Allowed, Condition
from indexer.search.browsing import Page
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.search.terms import query_reader
from indexer.search.terms.query_reader import QueryReader
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from sparta.word_tables import Substitute
from tests.indexer.live_index import commit_and_wait
from tests.indexer.random_postings import SETTINGS, word_tables, write_postings
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.vocabulary import COMMON, RARE, TOKENIZER
from tests.reference.searcher import ReferenceSearcher

Words = list[tuple[str, str, int]]
PIECES = {
    "dog": ["dog"],
    "cat": ["cat"],
    "Dogs": ["dog", "##s"],
    "running": ["run", "##ning"],
    '"red ball"': ["red", "ball"],
    '"cat, beach"': ["cat", "beach"],
    COMMON: [COMMON],
    RARE: [RARE],
    "qqq": [],
}


@pytest.fixture(scope="module")
def impacts(postings: Postings) -> dict[str, NDArray[Any]]:
    """Term → [N] in the order of image ids, which is that of the documents."""
    matrix = np.zeros((len(TOKENIZER.vocabulary), len(postings)), np.int64)
    for row, image in enumerate(sorted(postings, key=lambda image: image.image_id)):
        matrix[image.terms, row] = image.impacts
    return dict(zip(TOKENIZER.vocabulary, matrix, strict=True))


def having(word: str, impacts: dict[str, NDArray[Any]]) -> Allowed:
    pieces = PIECES[word]
    if not pieces:
        return np.zeros(len(impacts[COMMON]), np.bool_)
    own = [(impacts[piece] > 0) & (2 * impacts[piece] >= impacts[piece].max()) for piece in pieces]
    return np.all(own, axis=0)


@settings(max_examples=150)
@given(
    words=st.lists(
        st.tuples(
            st.sampled_from(sorted(PIECES)), st.sampled_from(["", "+", "-"]), st.integers(1, 4)
        ),
        min_size=1,
        max_size=6,
    ),
    k=st.sampled_from([1, 10, 400]),
)
def test_answers_are_those_of_the_reference_among_the_images_left(
    searcher: LuceneSearcher,
    exact: ReferenceSearcher,
    impacts: dict[str, NDArray[Any]],
    words: Words,
    k: int,
) -> None:
    text = " ".join(sign + word + ("" if sign == "-" else f"^{n}") for word, sign, n in words)
    counts = Counter[str]()
    allowed = np.ones(len(impacts[COMMON]), np.bool_)
    conditions = []
    for word, sign, count in words:
        own = having(word, impacts)
        if sign != "-":
            counts.update(dict.fromkeys(PIECES[word], count))
        if sign:
            allowed &= own if sign == "+" else ~own
            conditions.append(Condition(word.strip('"'), "-" if sign == "-" else "+", sum(own)))
    if all(sign == "-" for _, sign, _ in words):
        with pytest.raises(QueryError, match="it only excludes"):
            searcher.search(text, k)
        return
    found = searcher.search(text, k)
    right = [(exact._postings.ids[row], score) for row, score in exact.top(counts, k, allowed)]
    assert [(hit.image_id, hit.score) for hit in found.hits] == right
    assert found.conditions == conditions
    assert set(found.unknown) == {word for word, _, _ in words if word in ("qqq", RARE)}
    explain(searcher, text, [image_id for image_id, _ in right[:5]], dict(right))


def explain(
    searcher: LuceneSearcher, text: str, image_ids: list[str], scores: dict[str, float]
) -> None:
    for one in searcher.explain_all(text, image_ids):
        assert one.score == scores[one.image_id] == sum(term.score for term in one.terms)
        assert one.against == []
        assert all((term.count == 0) == (term.sign == "-") for term in one.terms)


def test_an_explanation_says_what_leaves_an_image_out(searcher: LuceneSearcher) -> None:
    image_id = searcher.search("+dog", 1).hits[0].image_id
    found = searcher.explain("beach^2 -dog -zebra +Dog +qqq", image_id)
    assert found.against == ["-dog", "+qqq"]
    excluded = [term for term in found.terms if term.sign == "-"]
    assert [(term.term, term.count, term.score) for term in excluded] == [
        ("dog", 0, 0.0),
        ("zebra", 0, 0.0),
    ]
    assert excluded[0].impact == 255
    assert found.terms[-2:] == excluded
    assert [term.count for term in found.terms if term.term == "beach"] == [2]
    lacking = searcher.search("the -dog", 1).hits[0].image_id
    assert searcher.explain("+dog the", lacking).against == ["+dog"]


def test_coverage_is_the_share_of_the_weight_that_an_image_has(
    searcher: LuceneSearcher, impacts: dict[str, NDArray[Any]]
) -> None:
    query = "dog^3 cat qqq -ball"
    # All largest impacts are 255, so that dog weighs 3, cat 1, and the unknown word 1, the mean.
    assert {impacts[word].max() for word in ("dog", "cat")} == {255}
    shares = (3 * having("dog", impacts) + having("cat", impacts)) / 5
    plain = searcher.search(query, 400)
    assert all(hit.coverage is None for hit in plain.hits)
    every = searcher.search(query, 400, min_coverage=0)
    assert answer(every) == answer(plain)
    ids = sorted(hit.image_id for hit in searcher.search("the", 400).hits)
    right = dict(zip(ids, shares.tolist(), strict=True))
    assert all(hit.coverage == pytest.approx(right[hit.image_id]) for hit in every.hits)
    for least in (0.2, 0.6, 0.8):
        found = searcher.search(query, 400, min_coverage=least)
        kept = [
            (hit.image_id, hit.score) for hit in every.hits if right[hit.image_id] >= least - 1e-6
        ]
        assert [(hit.image_id, hit.score) for hit in found.hits] == kept
    for one in searcher.explain_all(query, [hit.image_id for hit in every.hits[:20]]):
        assert one.coverage == pytest.approx(right[one.image_id])
    assert searcher.search(query, min_coverage=1).hits == []
    assert searcher.search("qqq", min_coverage=0.5).hits == []


def test_a_plain_query_has_no_conditions(searcher: LuceneSearcher) -> None:
    text = 'a -dog "red ball"'
    found = searcher.search(Query.plain(text))
    assert found.conditions == []
    assert answer(found) == answer(searcher.search(r"a \-dog red ball"))


def test_weights_beyond_exact_sums_are_refused(postings: Postings, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    write_postings(folder, [postings], TOKENIZER, replace(SETTINGS, bits=16))
    with closing(LuceneSearcher(folder)) as searcher:
        assert searcher.search("dog^100 cat^100 ball^56").hits
        with pytest.raises(QueryError, match=r"column 1: the weights add up to more than 256"):
            searcher.search("dog^100 cat^100 ball^57")
        assert searcher.search(" ".join(["dog"] * 300)).hits


def test_excluded_words_have_no_substitutes(postings: Postings, tmp_path: Path) -> None:
    tables = word_tables({RARE: (Substitute("cat", 0.75),)})
    write_postings(tmp_path / "index", [postings], TOKENIZER, tables=tables)
    searcher = LuceneSearcher(tmp_path / "index")
    found = searcher.search(f"the -{RARE}", 1000)
    assert (found.unknown, found.substitutions) == ([RARE], [])
    assert found.conditions == [Condition(RARE, "-", 0)] and len(found.hits) == len(searcher)
    required = searcher.search(f"the +{RARE}", 1000)
    assert answer(required) == answer(searcher.search("the +cat", 1000))
    assert [one.term for one in required.substitutions] == ["cat"]
    assert searcher.search(f"the +{RARE}", substitute=False).hits == []
    searcher.close()


@pytest.mark.parametrize("engine", ["lucene", "columns"])
def test_searched_words_that_training_rarely_saw_are_named(
    postings: Postings, tmp_path: Path, engine: str
) -> None:
    tables = word_tables({RARE: (Substitute("cat", 0.75),)}, ["cat", "##s", "qqq"])
    write_postings(tmp_path / "index", [postings], TOKENIZER, tables=tables)
    with closing(open_index(tmp_path / "index", engine)) as searcher:
        assert searcher.search("Dogs Cat ball Cat -beaches qqq").rare == ["Dogs", "Cat"]
        assert searcher.search(f'+cat "red cats"^2 {RARE}').rare == ["cat", "red cats", RARE]
        assert searcher.search(f"dog -cat {RARE}", substitute=False).rare == []
        assert searcher.browse("cats", Page(1)).result.rare == ["cats"]
        assert searcher.similar(postings.ids[0], words="dog cat -run").rare == ["cat"]
        with open_writer(tmp_path / "index") as writer:
            writer.write([Delete(postings.ids[1])])
            commit_and_wait(writer)
        newer = searcher.refreshed()
        assert newer is not None and newer.search("Dogs cat").rare == ["Dogs", "cat"]
        newer.close()


# "wolf" is in no vocabulary; a word with postings is never replaced.
SUBSTITUTES = {
    RARE: (Substitute("wolf", 0.9), Substitute("cat", 0.75), Substitute("dog", 0.5)),
    "dog": (Substitute("cat", 0.9),),
    "qqq": (Substitute("ball", 0.5),),
}
SELDOM = {"cat", "##s", "wolf", "zebra"}
TABLES = word_tables(SUBSTITUTES, SELDOM)
QUERIES = [RARE, f"{RARE.title()} dog", f"cat {RARE} cat", f"{RARE} {COMMON} {RARE} cat qqq"]


@pytest.fixture(scope="module")
def replacing(postings: Postings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replacing") / "index"
    write_postings(folder, [postings], TOKENIZER, tables=TABLES)
    return folder


@pytest.fixture(scope="module", params=[LuceneSearcher, ColumnSearcher])
def substituting(replacing: Path, request: pytest.FixtureRequest) -> Iterator[LuceneSearcher]:
    found: LuceneSearcher = request.param(replacing)
    yield found
    found.close()


@pytest.fixture(scope="module")
def substituted(postings: Postings) -> ReferenceSearcher:
    return ReferenceSearcher(postings, TOKENIZER, SUBSTITUTES, SELDOM)


@settings(max_examples=100)
@given(words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=12), replace=st.booleans())
def test_answers_with_substitutes_equal_the_reference(
    substituting: LuceneSearcher, substituted: ReferenceSearcher, words: list[str], replace: bool
) -> None:
    query = " ".join(words)
    found = substituting.search(query, 30, substitute=replace)
    wanted = substituted.search(query, 30, substitute=replace)
    assert answer(found) == answer(wanted)
    assert (found.unknown, found.substitutions) == (wanted.unknown, wanted.substitutions)
    assert found.rare == wanted.rare


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("replace", [True, False])
def test_explanations_with_substitutes_equal_the_reference(
    substituting: LuceneSearcher, substituted: ReferenceSearcher, query: str, replace: bool
) -> None:
    for hit in substituting.search(query, 20, substitute=replace).hits:
        found = substituting.explain(query, hit.image_id, substitute=replace)
        wanted = substituted.explain(query, hit.image_id, substitute=replace)
        assert found.score == hit.score == sum(term.score for term in found.terms)
        assert [(t.term, t.word, t.count, t.impact, t.similarity) for t in found.terms] == [
            (t.term, t.word, t.count, t.impact, t.similarity) for t in wanted.terms
        ]


def test_a_term_that_the_query_contains_is_explained_by_that_word(
    substituting: LuceneSearcher,
) -> None:
    image_id = substituting.search("cat").hits[0].image_id
    [term] = substituting.explain(f"{RARE} Cat", image_id).terms
    assert (term.word, term.count, term.similarity) == ("Cat", 2, None)
    [term] = substituting.explain(RARE, image_id).terms
    assert (term.word, term.term, term.count, term.similarity) == (RARE, "cat", 1, 0.75)


def test_a_full_cache_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_reader, "PART_CACHE", 2)
    reader = QueryReader(TOKENIZER, TABLES, lambda term: term in ("dog", "cat", "ball"))
    for _ in range(2):
        read = reader.read(Query.plain(f"dog cat {RARE} ball"), substitute=True)
        assert read.terms == "dog cat cat ball"

"""Every engine gives the answers of the reference, to the last tie, over whatever was written."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.answer import Answer, RefusedError
from indexer.engines.open import open_index
from indexer.filters.expression import FilterError
from indexer.filters.syntax import parse_filter
from indexer.maintenance.combine import merge_segments, split_index
from indexer.postings import ImagePostings, Postings
from indexer.query import QueryError
from indexer.search.engine import Capability
from indexer.search.explanations import Explain
from indexer.search.searcher import Searcher
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.images import UnknownImageError
from indexer.update import writer as writer_module
from indexer.update.writer import open_writer
from sparta.word_tables import Substitute
from tests.indexer.live_index import commit_and_wait
from tests.indexer.random_postings import random_postings, word_tables, write_postings
from tests.indexer.vocabulary import COMMON, RARE, TOKENIZER, WORDS
from tests.needs import package
from tests.reference.searcher import ReferenceSearcher

SUBSTITUTES = {
    RARE: (Substitute("wolf", 0.9), Substitute("cat", 0.75), Substitute("dog", 0.5)),
    "dog": (Substitute("cat", 0.9),),
}
SELDOM = {"cat", "##s", "red", "wolf"}
COLOURS = ("red", "green", "blue")
FILTERS = (
    "colour:red",
    "stars:>2 -colour:green",
    "taken:2024-02..2024-03",
    "colour:none",
    "tags:a",
    "folder:a path:00012",
)
FACETS = ("colour", "stars", "taken:month", "taken:year", "taken:day", "path", "tags", "liked")
SORTS = (None, "stars", "-stars", "colour", "-colour", "taken", "-taken", "path", "-tags", "-liked")
KINDS = (
    "built columns",
    "built lucene",
    "built shards",
    "written columns",
    "written shards",
    "written milvus",
    "merged lucene",
    "merged shards",
)

Pair = tuple[Searcher, ReferenceSearcher]


def described(images: Sequence[ImagePostings]) -> list[ImagePostings]:
    """With fields, some of which few images have."""
    found = []
    for number, image in enumerate(images):
        fields: dict[str, Any] = {"width": number, "stars": number % 5}
        if number % 3:
            fields |= {"colour": COLOURS[number % 7 % 3], "taken": f"2024-{1 + number % 5:02}-03"}
            fields["liked"] = number % 5 > 1
        if number % 4 == 1:
            fields["tags"] = ["b", "a"] if number % 8 == 1 else "c"
        found.append(replace(image, metadata=fields))
    return found


def write(folder: Path, changes: Sequence[Change]) -> None:
    """Write changes to an index, divided or not, and compact what is due."""
    with open_writer(folder, shard=True) as writer:
        writer.write(changes)
        commit_and_wait(writer)


def changed(folder: Path, images: list[ImagePostings]) -> list[ImagePostings]:
    """The images of an index after many were deleted, replaced, described anew and added."""
    others = described(list(random_postings(TOKENIZER, 90, seed=9)))
    images = [*images]
    deleted = images[1::3]
    write(folder, [Delete(one.image_id) for one in deleted])
    images = [one for one in images if one not in deleted]
    added = [replace(one, image_id=f"b/{number}") for number, one in enumerate(others[70:])]
    replaced = [
        replace(other, image_id=one.image_id)
        for one, other in zip(images[:5], others[:5], strict=True)
    ]
    write(folder, [Add(one) for one in (*added, *replaced)])
    moved = {**images[8].metadata, "stars": 4, "colour": "violet"}
    write(folder, [MetadataChange(images[8].image_id, moved)])
    images[8] = replace(images[8], metadata=moved)
    return [*replaced, *images[5:], *added]


@pytest.fixture(scope="module", params=KINDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    state, engine = request.param.split()
    folder = tmp_path_factory.mktemp(state) / "index"
    images = described(list(random_postings(TOKENIZER, 60, seed=5)))
    tables = word_tables(SUBSTITUTES, SELDOM)
    write_postings(folder, [Postings.of(images)], TOKENIZER, tables=tables)
    if engine == "shards":
        split_index(folder, folder.with_name("shards"), 3)
        folder = folder.with_name("shards")
    if state != "built":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer_module, "COMPACT_AT", 8)
            images = changed(folder, images)
    if state == "merged":
        merge_segments(folder)
    right = ReferenceSearcher(images, TOKENIZER, SUBSTITUTES, SELDOM)
    with ExitStack() as stack:
        if engine == "milvus":
            package("pymilvus", "milvus")
            searcher = _in_milvus(folder, request.getfixturevalue("uri"))
        else:
            searcher = open_index(folder, "lucene" if engine == "lucene" else "columns")
        yield stack.enter_context(closing(searcher)), right


def _in_milvus(folder: Path, uri: str) -> Searcher:
    from indexer.milvus.connection import Milvus
    from indexer.milvus.engine import open_milvus
    from indexer.milvus.push import push

    push(folder, Milvus(uri), "conformance")
    return open_milvus(folder, open_index(folder), uri, "conformance")


def assert_same(found: Answer, right: Answer) -> None:
    assert [(one.rank, one.image_id, one.score) for one in found.hits] == [
        (one.rank, one.image_id, one.score) for one in right.hits
    ]
    assert [one.metadata for one in found.hits] == [one.metadata for one in right.hits]
    for one, other in zip(found.hits, right.hits, strict=True):
        assert one.coverage == (other.coverage and pytest.approx(other.coverage))
    for name in ("unknown", "rare", "substitutions", "conditions", "terms"):
        assert list(getattr(found, name)) == list(getattr(right, name)), name
    assert (found.total, found.facets, found.last) == (right.total, right.facets, right.last)


words = st.sampled_from([*WORDS, COMMON, RARE, "Dogs", "running", "qqq", '"red ball"', "[MASK]"])
clauses = st.tuples(st.sampled_from(["", "", "", "+", "-"]), words, st.sampled_from(["", "", "^3"]))
texts = st.lists(clauses, min_size=1, max_size=5).map(
    lambda some: " ".join(
        sign + word + (weight if sign != "-" and word[0].isalpha() else "")
        for sign, word, weight in some
    )
)
ks = st.sampled_from([1, 3, 10, 200])
filters = st.sampled_from([None, None, *FILTERS]).map(lambda text: text and parse_filter(text))
coverages = st.sampled_from([None, None, 0.0, 0.4, 0.9])


@settings(max_examples=80)
@given(text=texts, k=ks, filter=filters, coverage=coverages, substitute=st.booleans())
def test_searches(
    pair: Pair, text: str, k: int, filter: Any, coverage: float | None, substitute: bool
) -> None:
    answers = [
        one.search(text, k, substitute=substitute, filter=filter, min_coverage=coverage)
        for one in pair
        if not _only_excludes(one, text)
    ]
    if answers:
        assert_same(*answers)


def _only_excludes(searcher: Searcher | ReferenceSearcher, text: str) -> bool:
    try:
        searcher.search(text)
    except QueryError:
        return True
    return False


@settings(max_examples=60)
@given(
    text=st.one_of(st.just(""), texts.map(lambda text: f"{COMMON} {text}")),
    k=st.sampled_from([1, 5, 100]),
    offset=st.sampled_from([0, 3, 70]),
    sort=st.sampled_from(SORTS),
    facets=st.lists(st.sampled_from(FACETS), max_size=2, unique=True),
    filter=filters,
    coverage=coverages,
)
def test_pages_totals_facets_and_orders(
    pair: Pair,
    text: str,
    k: int,
    offset: int,
    sort: str | None,
    facets: list[str],
    filter: Any,
    coverage: float | None,
) -> None:
    asked = {"sort": sort, "facets": facets, "filter": filter, "min_coverage": coverage}
    answers = [one.search(text, k, offset=offset, **asked) for one in pair]
    for _ in range(3):  # pages that follow one another
        assert_same(*answers)
        if answers[1].last is None:
            break
        answers = [one.search(text, k, after=answers[1].last, **asked) for one in pair]


@settings(max_examples=40)
@given(
    chosen=st.lists(st.integers(0, 200), min_size=1, max_size=3),
    text=st.sampled_from(["", "dog", "-cat +red", RARE, "-dog", "qqq cat^3"]),
    k=ks,
    filter=filters,
)
def test_similar_images(pair: Pair, chosen: list[int], text: str, k: int, filter: Any) -> None:
    every = pair[1].ids()
    ids = [every[number % len(every)] for number in chosen]
    assert_same(*(one.similar(ids, k, words=text, filter=filter) for one in pair))


@settings(max_examples=40)
@given(text=texts, substitute=st.booleans(), place=st.integers(0, 200))
def test_explanations(pair: Pair, text: str, substitute: bool, place: int) -> None:
    found, right = pair
    image_id = right.ids()[place % len(right)]
    mine, theirs = (one.explain(text, image_id, substitute=substitute) for one in pair)
    for term, other in zip(mine.terms, theirs.terms, strict=True):
        assert term.box == (other.box and pytest.approx(other.box, abs=1e-4))
        assert replace(term, box=None) == replace(other, box=None)
    assert (mine.score, mine.against) == (theirs.score, theirs.against)
    assert mine.coverage == (theirs.coverage and pytest.approx(theirs.coverage))
    assert mine.metadata == theirs.metadata
    if not _only_excludes(found, text):
        for hit in found.search(text, 5, substitute=substitute, explain=Explain()).hits:
            alone = found.explain(text, hit.image_id, substitute=substitute)
            assert (hit.explanation, hit.coverage) == (alone.terms, alone.coverage)


def test_explained_pages_and_similar_images(pair: Pair) -> None:
    found, right = pair
    for answer in (
        found.search("dog cat", 3, sort="-stars", explain=Explain()),
        found.search("dog cat", 3, offset=2, explain=Explain(grounded=False)),
        found.similar(right.ids()[3], 5, words="sky", explain=Explain()),
    ):
        assert answer.timings.explain_ms is not None
        for hit in answer.hits:
            assert hit.explanation is not None
            assert sum(term.score for term in hit.explanation) == hit.score
    assert found.search("", 2, explain=Explain()).hits[0].explanation is None
    with pytest.raises(RefusedError, match="explain: 3 hits of 2 terms are too many; ask for 2"):
        found.search("dog cat", 3, explain=Explain(most=5))


def test_a_photo_that_is_sent_is_searched_as_if_it_were_indexed(pair: Pair) -> None:
    found, right = pair
    for image_id in right.ids()[::7]:
        impacts = dict(sorted(right._impacts[image_id].items(), key=_by_term))
        mine, near = found.similar_to(impacts, 200), found.similar(image_id, 200)
        assert mine.terms == near.terms
        others = [(one.image_id, one.score) for one in mine.hits if one.image_id != image_id]
        assert others == [(one.image_id, one.score) for one in near.hits]
    assert found.similar_to({"[PAD]": 9, "nothing": 3}).hits == []


def _by_term(pair: tuple[str, int]) -> int:
    return TOKENIZER.ids[pair[0]]


def test_what_else_is_known_of_images(pair: Pair) -> None:
    found, right = pair
    assert len(found) == len(right) == found.count()
    assert found.ids() == right.ids()
    for text in FILTERS:
        if text != "colour:none":
            assert found.ids(parse_filter(text)) == right.ids(parse_filter(text))
            assert found.count(parse_filter(text)) == len(right.ids(parse_filter(text)))
    for image_id in right.ids()[::9]:
        assert found.metadata(image_id) == right.metadata(image_id)
    kinds = {"path": "keyword", "stars": "number", "taken": "date", "tags": "keyword"}
    assert kinds.items() <= dict(found.kinds()).items()
    assert [one.word for one in found.complete("a re")] == ["red"]
    assert found.complete(RARE[:3]) == []
    assert [one.word for one in found.correct("dgo")] == ["dog"]
    assert found.search("dgo sky").corrections[0].words == ["dog"]
    found.warm_up()
    assert found.refreshed() is None and found.can >= {*Capability} - {Capability.QUICK}


def test_what_is_refused(pair: Pair) -> None:
    found, right = pair
    for ask in (found.metadata, found.similar, lambda one: found.explain("dog", one)):
        for image_id in ("nowhere.jpg", "", "\ud800", right.ids()[0] + "\0", "x" * 70_000):
            with pytest.raises(UnknownImageError):
                ask(image_id)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        found.search("dog", 0)
    with pytest.raises(FilterError, match="no image has the field 'colours'; there is colour"):
        found.search("dog", filter=parse_filter("colours:red"))
    for name, asked in (("sort", {"sort": "wide"}), ("facets", {"facets": ["taken"]})):
        with pytest.raises(RefusedError) as caught:
            found.search("dog", **asked)
        assert caught.value.field == name
    last = found.search(COMMON, 3, sort="stars").last
    with pytest.raises(RefusedError, match="cursor: it is of another order"):
        found.search(COMMON, 3, sort="colour", after=last)


def test_ties_are_in_the_order_of_image_ids_among_thousands(tmp_path: Path) -> None:
    """Lucene would stop early."""
    images = random_postings(TOKENIZER, 4000, seed=1)
    write_postings(tmp_path / "index", [images], TOKENIZER)
    right = ReferenceSearcher(images, TOKENIZER)
    some = parse_filter("width:<3000")
    for engine in ("columns", "lucene"):
        with closing(open_index(tmp_path / "index", engine)) as found:
            for query in (COMMON, "dog dog beach", "dog cat beach ball red sky run the the"):
                for filter in (None, some):
                    asked = (query, 30)
                    assert_same(
                        found.search(*asked, filter=filter), right.search(*asked, filter=filter)
                    )

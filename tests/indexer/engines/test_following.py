"""Searchers while the index changes, or shards of it do not answer."""

import pickle
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.answer import Answer, Explanation, UnavailableError
from indexer.engines.columns import ColumnsEngine
from indexer.engines.open import open_index, read_language
from indexer.engines.shards import LocalShards, Question, Result, ShardsEngine, ShardsMissingError
from indexer.filters.syntax import parse_filter
from indexer.maintenance.combine import merge_segments, split_index
from indexer.manifest import index_folders, owner
from indexer.postings import Postings
from indexer.search.explanations import Explain
from indexer.search.searcher import Searcher
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import ReplacedError
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.live_index import LiveReference, assert_same, write
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, RARE, TOKENIZER
from tests.needs import package
from tests.reference.searcher import ReferenceSearcher


@pytest.fixture(params=["whole", "shards"])
def own(request: pytest.FixtureRequest, built: Path) -> Path:
    """A small index of one's own, or the same in shards."""
    if request.param == "whole":
        return built
    split_index(built, built.with_name("shards"), 2)
    return built.with_name("shards")


def added(number: int) -> Add:
    [image] = random_postings(TOKENIZER, 1, seed=100 + number)
    return Add(replace(image, image_id=f"m/{number:03}"))


def ids(found: Answer) -> list[str]:
    return [hit.image_id for hit in found.hits]


def test_an_index_in_the_place_of_another_does_not_continue_it(
    built: Path, tmp_path: Path, make_index: MakeIndex
) -> None:
    searcher = open_index(built)
    other = make_index(tmp_path / "other", random_postings(TOKENIZER, 5, seed=3))
    shutil.rmtree(built)
    shutil.move(other, built)
    write(built, added(1))
    with pytest.raises(ReplacedError):
        searcher.continued()
    newer = searcher.refreshed()
    assert newer is not None and newer.ids() == open_index(built).ids()


def test_an_index_without_images_is_searched(own: Path, small: Postings) -> None:
    write(own, *map(Delete, small.ids))
    searcher = open_index(own)
    assert len(searcher) == 0 and searcher.ids() == []
    for found in (searcher.search(COMMON), searcher.search(""), searcher.search(f"+{COMMON} dog")):
        assert found.hits == [] and found.last is None
    assert searcher.search(f"{COMMON} qqq").unknown == ["qqq"]
    assert searcher.complete("do") == []
    searcher.warm_up()


def next_page(searcher: Searcher, page: Answer | None, sort: str | None) -> Answer:
    return searcher.search(COMMON, 3, sort=sort, after=page.last if page else None)


@pytest.mark.parametrize("sort", [None, "path", "-path"])
def test_pages_miss_and_repeat_no_image_that_stays(own: Path, sort: str | None) -> None:
    """Before each page a page's images are deleted, images added, and the newest commit taken."""
    searcher = open_index(own)
    stay = set(ids(searcher.search(COMMON, 100)))
    page, seen = next_page(searcher, None, sort), []
    number = 0
    while page.hits:
        seen += ids(page)
        gone = page.hits[-1].image_id  # at which the next page begins
        new = [added(number), added(number + 1)] if number < 20 else []
        write(own, Delete(gone), *new)
        stay.discard(gone)
        number += 2
        searcher = searcher.refreshed() or searcher
        page = next_page(searcher, page, sort)
        assert number < 60
    assert stay <= set(seen)
    assert len(seen) == len(set(seen))


def test_lucene_answers_from_its_own_commit_until_a_merge(
    built: Path, small: Postings, right: LiveReference
) -> None:
    package("jnius", "lucene")
    before = right.searcher()
    with closing(open_index(built, "lucene")) as searcher:
        replaced = Add(replace(added(2).image, image_id=small.ids[5]))
        changes: list[Change] = [added(1), Delete(small.ids[3]), replaced]
        write(built, *changes)
        right.apply(changes)
        assert searcher.refreshed() is None
        assert_same(searcher, before)
        with closing(open_index(built, "lucene")) as again:
            assert_same(again, before)
        merge_segments(built)
        newer = searcher.refreshed()
        assert newer is not None
        with closing(newer):
            assert_same(newer, right.searcher())


SHARDS = 3


class Remote(LocalShards):
    """Shards elsewhere: questions are sent as bytes, and shards may be lost or follow writes.

    Attributes:
        lost: shards that do not answer.
        asked: how often the shards were asked.
        before: is called before the shards are asked.
    """

    def __init__(self, folder: Path) -> None:
        self._open = [ColumnsEngine(Snapshot.open(one)) for one in index_folders(folder)]
        super().__init__(self._open)
        self.lost: set[int] = set()
        self.asked = 0
        self.before: Callable[[int], None] = lambda asked: None

    def follow(self) -> None:
        self._open[:] = [one.refreshed() or one for one in self._open]

    def ask(
        self, questions: Mapping[int, Question[Result]], lenient: bool
    ) -> tuple[dict[int, Result], list[int]]:
        self.asked += 1
        self.before(self.asked)
        there = {n: pickle.loads(pickle.dumps(own)) for n, own in questions.items()}
        answering = {n: own for n, own in there.items() if n not in self.lost}
        try:
            found, _ = super().ask(answering, lenient)
        except InputError as error:
            raise pickle.loads(pickle.dumps(error)) from None
        return pickle.loads(pickle.dumps(found)), sorted(self.lost & questions.keys())

    def refreshed(self) -> None:
        """They follow by themselves."""


@pytest.fixture(scope="module")
def images() -> Postings:
    return random_postings(TOKENIZER, 60, seed=2)


@pytest.fixture
def folder(tmp_path: Path, images: Postings, make_index: MakeIndex) -> Path:
    make_index(tmp_path / "index", images)
    split_index(tmp_path / "index", tmp_path / "shards", SHARDS)
    return tmp_path / "shards"


def searcher_of(folder: Path, shards: Remote) -> Searcher:
    engine = ShardsEngine(shards)
    return Searcher(engine, read_language(folder), lenient=engine.lenient)


FILTER = parse_filter("path:a*")
QUESTIONS: dict[str, Callable[[Any, str], Any]] = {
    "search": lambda one, image: one.search(f"{COMMON} dog qqq {RARE}", 20),
    "signs": lambda one, image: one.search(
        f"+{COMMON} -dog cat^3", 20, filter=FILTER, min_coverage=0.1
    ),
    "browse": lambda one, image: one.search("", 20, sort="-path", facets=["folder"]),
    "similar": lambda one, image: one.similar(image, 20, words="dog -cat"),
    "explain": lambda one, image: one.explain(f"{COMMON} dog +cat", image),
}


def plain(found: Answer | Explanation) -> Any:
    """What is compared: not times, nor how exactly shares were summed."""
    if isinstance(found, Explanation):
        terms = [(one.term, one.word, one.impact, one.score) for one in found.terms]
        return found.score, terms, found.against, round(found.coverage or 0, 9)
    hits = [(one.rank, one.image_id, one.score, one.metadata) for one in found.hits]
    notes = (found.unknown, found.rare, found.conditions, found.terms, found.total, found.facets)
    return hits, *map(repr, notes)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("moment", range(1, 7))
def test_an_answer_is_of_one_version_whenever_shards_take_writes(
    folder: Path, images: Postings, name: str, moment: int
) -> None:
    shards = Remote(folder)
    searcher = searcher_of(folder, shards)
    asked, [first, *others] = QUESTIONS[name], images.ids
    former = ReferenceSearcher(images, TOKENIZER)
    new = list(random_postings(TOKENIZER, 80, seed=8))[60:]  # with other ids, and larger impacts
    newer = ReferenceSearcher(
        [*(one for one in images if one.image_id != others[5]), *new], TOKENIZER
    )
    assert plain(asked(searcher, first)) == plain(asked(former, first))
    began = shards.asked

    def write(number: int) -> None:
        if number == began + moment:
            with open_writer(folder) as writer:
                writer.write([Delete(others[5]), *map(Add, new)])
            shards.follow()

    shards.before = write
    found = plain(asked(searcher, first))
    assert found in (plain(asked(former, first)), plain(asked(newer, first)))
    if shards.asked < began + moment:  # it asked less often
        shards.asked = began + moment - 1
    else:
        assert found == plain(asked(newer, first)) or moment > 1
    searcher.metadata(first)  # the write may come now
    assert plain(asked(searcher, first)) == plain(asked(newer, first))


def test_an_index_that_never_rests_is_given_up(folder: Path) -> None:
    shards = Remote(folder)
    searcher = searcher_of(folder, shards)
    searcher.search(COMMON)
    numbers = iter(range(100))
    some = Snapshot.open(index_folders(folder)[0]).stored(0).image_id

    def write(_: int) -> None:
        with open_writer(index_folders(folder)[0], shard=True) as writer:
            writer.write([MetadataChange(some, {"n": next(numbers)})])
        shards.follow()

    shards.before = write
    with pytest.raises(UnavailableError, match="changes faster than it can be searched"):
        searcher.search(COMMON)


def test_without_a_shard_answers_are_refused_or_those_of_the_others(
    folder: Path, images: Postings
) -> None:
    shards = Remote(folder)
    searcher = searcher_of(folder, shards)
    whole = ReferenceSearcher(images, TOKENIZER)
    rest = ReferenceSearcher([one for one in images if owner(one.image_id, SHARDS) != 1], TOKENIZER)
    [here, *_], [gone, *_] = rest.ids(), sorted({*whole.ids()} - {*rest.ids()})
    count = len(searcher)
    shards.lost = {1}
    for name in ("search", "signs", "browse"):
        with pytest.raises(ShardsMissingError, match=r"^shard-001: no machine answers; try"):
            QUESTIONS[name](searcher, here)
    text = f"+{COMMON} -dog cat^3"
    for asked in ({}, {"filter": FILTER}, {"sort": "path", "facets": ["folder"]}, {"offset": 7}):
        found = searcher.search(text, 20, partial=True, **asked)
        assert plain(found) == plain(rest.search(text, 20, **asked))
        assert found.missing_shards == ["shard-001"]
    explained = searcher.search(text, 3, partial=True, explain=Explain()).hits[0].explanation
    assert explained is not None and [one.term for one in explained] == [COMMON, "cat", "dog"]
    assert len(searcher) == count
    assert searcher.metadata(here) == rest.metadata(here)
    for ask in (searcher.metadata, lambda one: searcher.explain("dog", one), searcher.similar):
        with pytest.raises(UnavailableError):
            ask(gone)
    shards.lost = {0, 1, 2}
    with pytest.raises(ShardsMissingError, match=r"^shard-000, shard-001, shard-002: "):
        searcher.search(text, partial=True)
    shards.lost = set()
    assert searcher.search(text, partial=True).missing_shards == []
    assert plain(searcher.search(text)) == plain(whole.search(text))


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_shard_that_is_lost_within_a_search_is_left_out(
    folder: Path, images: Postings, moment: int
) -> None:
    shards = Remote(folder)
    searcher = searcher_of(folder, shards)

    def lose(asked: int) -> None:
        shards.lost = {2} if asked >= moment else set()

    shards.before = lose
    whole = ReferenceSearcher(images, TOKENIZER)
    rest = ReferenceSearcher([one for one in images if owner(one.image_id, SHARDS) != 2], TOKENIZER)
    found = searcher.search(f"{COMMON} dog", 20, partial=True, min_coverage=0.2)
    if found.missing_shards:
        assert {hit.image_id for hit in found.hits} <= {*rest.ids()}
    else:
        assert plain(found) == plain(whole.search(f"{COMMON} dog", 20, min_coverage=0.2))

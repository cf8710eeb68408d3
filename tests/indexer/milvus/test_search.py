"""Answers from Milvus equal those of the index it was pushed from, to the last tie."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.milvus import finder as finder_module
from indexer.milvus.collection import Collection
from indexer.milvus.connection import Milvus
from indexer.milvus.finder import best_rows
from indexer.milvus.push import push
from indexer.milvus.search import MilvusSearcher, open_milvus
from indexer.postings import Postings
from indexer.search.api import (
    Allowed,
    Explainer,
    Filterable,
    PhotoSearcher,
    Searcher,
    SearchResult,
    Timings,
    UnanswerableError,
    UnavailableError,
    UnknownImageError,
)
from indexer.search.live_columns import LiveColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.search.terms.words import Suggester
from indexer.store.changes import Add, Delete
from indexer.update.writer import open_writer
from tests.indexer.live_index import QUERIES, assert_same, commit_and_wait
from tests.indexer.search.queries import VOCABULARY, answer, bitmaps
from tests.indexer.vocabulary import COMMON
from tests.milvus_server import free_port, milvus_server
from tests.reference.searcher import ReferenceSearcher

Both = tuple[MilvusSearcher, LuceneSearcher]

plain = st.sampled_from([word for word in VOCABULARY if word.isalpha()])
weighted = st.builds("{}{}".format, plain, st.sampled_from(["", "^3"]))
signed = st.builds("{}{}".format, st.sampled_from(["+", "-"]), plain)
texts = st.builds(
    lambda first, others: " ".join([first, *others]),
    weighted,
    st.lists(weighted | signed, max_size=5),
)
coverages = st.none() | st.sampled_from([0.0, 0.5, 1.0])


@pytest.fixture(scope="module", params=["columns", "lucene"])
def both(
    milvus: Milvus, index: Path, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> Iterator[Both]:
    """A collection and the index it was pushed from, opened in an engine."""
    folder = tmp_path_factory.mktemp("index") / "index"
    shutil.copytree(index, folder)
    push(folder, milvus, "searched")
    with closing(open_index(folder, request.param)) as sparse:
        yield open_milvus(folder, sparse, milvus.uri, "searched"), sparse


def untimed(result: SearchResult) -> SearchResult:
    return replace(result, timings=Timings(0, 0, 0))


@settings(max_examples=100)
@given(
    text=texts,
    k=st.integers(1, 400),
    allowed=bitmaps(300),
    least=coverages,
    most=st.sampled_from([5, 1000]),
)
def test_hits_are_those_of_the_index(
    both: Both, text: str, k: int, allowed: Allowed | None, least: float | None, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # With few, keys are named only where next to no image is allowed.
        patch.setattr(finder_module, "MOST_ROWS", most)
        found, right = (one.search(text, k, allowed=allowed, min_coverage=least) for one in both)
    assert untimed(found) == untimed(right)


def test_hits_are_those_of_the_reference(both: Both, exact: ReferenceSearcher) -> None:
    for query in QUERIES:
        for k in (1, 7, 400):
            assert answer(both[0].search(query, k)) == answer(exact.search(query, k))


def test_ties_beyond_what_the_server_returns(
    both: Both, exact: ReferenceSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder_module, "SPARE", 1)
    for query in (COMMON, "dog", f"{COMMON} cat"):
        for k in range(1, 7):
            assert answer(both[0].search(query, k)) == answer(exact.search(query, k))


def test_explanations_are_those_of_the_index(both: Both) -> None:
    found, right = both
    ids = [hit.image_id for hit in right.search(COMMON, 20).hits]
    for query in (*QUERIES, {"dog": 3, COMMON: 1}, "zzz", "dog^3 -cat +ball"):
        assert found.explain_all(query, ids) == right.explain_all(query, ids)
    assert found.explain("dog^3", ids[0]) == right.explain("dog^3", ids[0])
    assert found.explain_all("dog", []) == []


@settings(max_examples=20)
@given(
    of=st.lists(st.integers(0, 299), min_size=1, max_size=3),
    text=st.just("") | texts,
    allowed=bitmaps(300),
    k=st.integers(1, 20),
)
def test_similar_images_are_those_of_the_index(
    both: Both, postings: Postings, of: list[int], text: str, allowed: Allowed | None, k: int
) -> None:
    ids = [postings.ids[one] for one in of]
    found, right = (one.similar(ids, k, words=text, allowed=allowed) for one in both)
    assert untimed(found) == untimed(right)


def test_what_the_index_answers(both: Both, postings: Postings) -> None:
    found, right = both
    for one in (found, right):
        assert isinstance(one, Explainer | Filterable | PhotoSearcher | Suggester)
    searcher: Searcher = found
    assert len(searcher) == 300
    assert searcher.metadata(postings.ids[0]) == right.metadata(postings.ids[0])
    assert found.complete("do") == right.complete("do")
    assert found.correct("dogg") == right.correct("dogg")
    assert found.field_index() is right.field_index()
    impacts = {"dog": 7, "cat": 3}
    assert untimed(found.similar_to(impacts)) == untimed(right.similar_to(impacts))
    for ask in (found.similar, found.metadata, lambda one: found.explain("dog", one)):
        with pytest.raises(UnknownImageError):
            ask("nowhere.jpg")
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        found.search("dog", 0)


def test_more_than_the_server_returns(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    found, right = both
    monkeypatch.setattr(finder_module, "best_rows", partial(best_rows, most=60))
    worst = {hit.image_id for hit in right.search(COMMON, 400).hits[-150:]}
    allowed = np.zeros(300, np.bool_)
    for image_id in worst:
        allowed[right.finder.document(image_id)] = True
    for k in (1, 9):  # rows are not enough, so images are named
        answers = [one.search(COMMON, k, allowed=allowed) for one in both]
        assert untimed(answers[0]) == untimed(answers[1])
    monkeypatch.setattr(finder_module, "MOST_ROWS", 149)
    with pytest.raises(UnanswerableError, match=r"at most 60 images, of which .* leave 0: "):
        found.search(COMMON, 1, allowed=allowed)


def write(index: Path, postings: Postings) -> None:
    """Add an image and delete two."""
    images = list(postings)
    with open_writer(index) as writer:
        writer.write([Add(images[20]), Delete(images[0].image_id)])
        writer.write([Delete(images[1].image_id)])
        commit_and_wait(writer)


def test_it_follows_the_index(milvus: Milvus, live: Path, postings: Postings) -> None:
    push(live, milvus, "following")
    sparse = LuceneSearcher(live)
    before = open_milvus(live, sparse, milvus.uri, "following")
    assert len(before.search(COMMON, 50).hits) == len(before) == 20
    write(live, postings)
    # Until it is pushed, images that either of the two lacks are not found.
    newest = LiveColumnSearcher(live)
    after = before.following(newest)
    assert {hit.image_id for hit in after.search(COMMON, 50).hits} == set(postings.ids[2:20])
    with pytest.raises(UnavailableError, match=r"lacks a/00020 é.jpg: push the index again"):
        after.explain("dog", postings.ids[20])
    push(live, milvus, "following")
    right = ReferenceSearcher(Postings.of(list(postings)[2:21]), newest.tokenizer)
    assert_same(after, right)  # type: ignore[arg-type]
    after.close()


def test_it_is_unavailable_until_it_is_pushed(
    milvus: Milvus, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder_module, "PAUSE", 100)
    sparse = LuceneSearcher(live)
    missing = open_milvus(live, sparse, milvus.uri, "missing")
    reason = r"^milvus://.* does not have all of the collection missing_\w+: run sparta push /"
    with pytest.raises(UnavailableError, match=reason):
        missing.search("dog")
    collection = push(live, milvus, "missing").collection
    with pytest.raises(UnavailableError, match=reason):  # nobody tried again yet
        missing.search("dog")
    monkeypatch.setattr(finder_module, "PAUSE", 0)
    assert missing.search("dog").hits
    Collection(milvus, collection, 0).drop()
    with pytest.raises(UnavailableError, match="collection not found"):
        missing.search("dog")
    with pytest.raises(UnavailableError, match=reason):
        missing.search("dog")
    with pytest.raises(UnavailableError, match="is no address of Milvus"):
        open_milvus(live, sparse, "there", "missing").search("dog")


def test_a_server_that_is_down(live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder_module, "SECONDS", 1.0)
    monkeypatch.setattr(finder_module, "PAUSE", 0)
    sparse, port = LuceneSearcher(live), free_port()
    uri = f"milvus://127.0.0.1:{port}"
    searcher = open_milvus(live, sparse, uri, "down")
    (folder := tmp_path / "milvus").mkdir()
    with milvus_server(folder, port):
        push(live, Milvus(uri), "down")
        right = searcher.search("dog")
    for _ in range(2):
        with pytest.raises(UnavailableError, match=f"^{uri} does not answer, or not within 1 s: "):
            searcher.search("dog")
    with milvus_server(folder, port):
        assert untimed(_answered(searcher)) == untimed(right)


def _answered(searcher: MilvusSearcher) -> SearchResult:
    """The first answer; the client tries again after a second or two."""
    end = time.monotonic() + 30
    while True:
        with suppress(UnavailableError):
            return searcher.search("dog")
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_server_that_ranks_otherwise(
    milvus: Milvus, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(live, milvus, "other")
    nearest = Collection.nearest
    monkeypatch.setattr(
        Collection,
        "nearest",
        lambda *given: [(score / 2, key) for score, key in nearest(*given)],
    )
    searcher = open_milvus(live, LuceneSearcher(live), milvus.uri, "other")
    with pytest.raises(UnavailableError, match=r"does not rank .*, as Milvus 2.5 and later"):
        searcher.search("dog")

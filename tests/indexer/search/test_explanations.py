"""What won a term of an image, one image and many at once, in each engine."""

from __future__ import annotations

import time
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.commands.answer_tables import won_by
from indexer.grounding import WinningLabel
from indexer.search.api import Explanation, TermExplanation, UnknownImageError
from sparta.errors import InputError
from tests.indexer.labelled import LEFT, RIGHT, WHOLE, labelled_index
from tests.indexer.search.queries import VOCABULARY
from tests.reference.searcher import ReferenceSearcher


def same(found: list[Explanation], right: list[Explanation]) -> bool:
    """Whether two explanations are equal; a packed box is rounded to 1/65535."""
    for mine, theirs in zip(found, right, strict=True):
        assert mine.image_id == theirs.image_id
        assert mine.score == theirs.score
        for term, other in zip(mine.terms, theirs.terms, strict=True):
            box = other.box and pytest.approx(other.box, abs=1e-5)
            assert term.box == box
            other.box = term.box
            assert term == other
    return True


@settings(max_examples=100)
@given(
    words=st.lists(st.sampled_from(VOCABULARY), max_size=60),
    images=st.lists(st.integers(0, 299), max_size=40),
    substitute=st.booleans(),
)
def test_many_images_as_the_reference_explains_each(
    searcher: LuceneSearcher,
    exact: ReferenceSearcher,
    words: list[str],
    images: list[int],
    substitute: bool,
) -> None:
    query, ids = " ".join(words), [f"a/{image:05d} é.jpg" for image in images]
    found = searcher.explain_all(query, ids, substitute=substitute)
    assert same(found, exact.explain_all(query, ids, substitute=substitute))


def test_terms_with_counts_are_explained_as_by_the_reference(
    searcher: LuceneSearcher, exact: ReferenceSearcher
) -> None:
    found = searcher.similar("a/00007 é.jpg", 50)
    ids = [hit.image_id for hit in found.hits]
    explained = searcher.explain_all(found.terms, ids)
    assert same(explained, exact.explain_all(found.terms, ids))
    assert [one.score for one in explained] == [hit.score for hit in found.hits]


def test_an_unknown_image_among_others_is_refused(searcher: LuceneSearcher) -> None:
    with pytest.raises(UnknownImageError, match="absent"):
        searcher.explain_all("dog", ["a/00007 é.jpg", "absent.jpg"])


def test_groundings_are_read_once_for_all_images(
    searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(wraps=searcher.index.packed_groundings)
    monkeypatch.setattr(searcher.index, "packed_groundings", read)
    searcher.explain_all("dog beach", [f"a/{image:05d} é.jpg" for image in range(200)])
    read.assert_called_once()


def test_a_damaged_grounding_is_one_line(
    searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher.index, "packed_groundings", lambda _: [b"\x09" * 20])
    for call in (searcher.similar, lambda image: searcher.explain("dog", image)):
        with pytest.raises(InputError, match=r"lucene is damaged \(a grounding .*build the index"):
            call("a/00007 é.jpg")


def test_warming_up_explains_too(searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch) -> None:
    explain = Mock(wraps=searcher.explain_all)
    monkeypatch.setattr(searcher, "explain_all", explain)
    searcher.warm_up()
    searcher.prepare_explaining()
    give_up = time.monotonic() + 60
    while explain.call_count < 2 and time.monotonic() < give_up:
        time.sleep(0.01)  # columns explain in a thread, which starts Java
    assert explain.call_count > 1


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> LuceneSearcher:
    index, _, _ = labelled_index(tmp_path_factory.mktemp("labelled"))
    return LuceneSearcher(index)


def explain(labelled: LuceneSearcher, term: str, image_id: str) -> TermExplanation:
    [found] = labelled.explain(term, image_id).terms
    return found


@pytest.mark.parametrize(
    ("term", "image_id", "region", "box", "label", "words"),
    [
        (
            "dog",
            "a.png",
            0,
            LEFT,
            WinningLabel("dog", "brown dog"),
            "label “dog” in “brown dog”, region 0",
        ),
        ("brown", "a.png", 0, LEFT, WinningLabel("brown", "brown dog"), None),
        ("cat", "a.png", 1, RIGHT, WinningLabel("cat", "cat"), "label “cat”, region 1"),
        ("ball", "a.png", 1, RIGHT, None, "region 1"),
        ("tree", "a.png", 2, WHOLE, None, "whole photo"),
        ("ball", "b.png", 0, LEFT, None, "region 0"),
        ("red", "b.png", 1, RIGHT, WinningLabel("red", "red ball"), None),
        ("man", "c.png", 0, LEFT, WinningLabel("man", "man"), None),
        ("dog", "c.png", None, None, None, ""),
    ],
)
def test_region_or_label_that_won(
    labelled: LuceneSearcher,
    term: str,
    image_id: str,
    region: int | None,
    box: tuple[float, ...] | None,
    label: WinningLabel | None,
    words: str | None,
) -> None:
    found = explain(labelled, term, image_id)
    assert (found.region, found.label) == (region, label)
    assert (found.impact > 0) == (region is not None)
    assert found.box == (None if box is None else pytest.approx(box, abs=1e-4))
    assert found.whole == (box == WHOLE)
    assert words is None or won_by(found) == words

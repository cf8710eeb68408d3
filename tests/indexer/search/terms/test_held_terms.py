"""Which terms some image has, over the commits of an index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.grounding import Inputs
from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.postings import ImagePostings
from indexer.search.terms.held_terms import HeldTerms

TERMS = ["dog", "cat", "sea", "sky"]
Images = dict[str, set[str]]


def finder(images: Images, looked_up: list[str]) -> Callable[[str], str | None]:
    """Finds an image of some, and notes what it was asked for."""

    def find(term: str) -> str | None:
        looked_up.append(term)
        return next((name for name, own in images.items() if term in own), None)

    return find


def add(name: str, *terms: str) -> Add:
    numbers = np.array(sorted(map(TERMS.index, terms)), np.int32)
    ones, none = np.ones(len(terms), np.int32), np.empty(0, np.int32)
    inputs = Inputs(np.empty((0, 4), np.float32), none, none.astype(np.int16))
    postings = ImagePostings(name, {}, numbers, ones, ones.astype(np.int16), inputs)
    return Add(postings)


def after(images: Images, changes: list[Change]) -> Images:
    images = dict(images)
    for change in changes:
        if isinstance(change, Add):
            images[change.image_id] = {TERMS[term] for term in change.image.terms.tolist()}
        elif isinstance(change, Delete):
            images.pop(change.image_id, None)
    return images


def test_only_what_may_have_changed_is_looked_up_again() -> None:
    images: Images = {"a": {"dog"}, "b": {"dog", "cat"}}
    first: list[str] = []
    again: list[str] = []
    held = HeldTerms(finder(images, first))
    assert [held(term) for term in ["dog", "cat", "sea", "dog", "sea"]] == [1, 1, 0, 1, 0]
    assert first == ["dog", "cat", "sea"]
    changes: list[Change] = [MetadataChange("a", {}), Delete("b"), add("c", "sky")]
    newer = held.after(changes, finder(after(images, changes), again), TERMS)
    assert again == ["cat"]  # "sea" is no term of what was added
    assert [newer(term) for term in TERMS] == [1, 0, 0, 1]
    assert again == ["cat", "sky"]
    assert not held.agrees(newer) and held("cat")


def test_a_term_that_arrives_is_looked_up() -> None:
    held = HeldTerms(finder({}, []))
    assert not held("sea")
    newer = held.after([add("a", "sea")], finder({"a": {"sea"}}, []), TERMS)
    assert newer("sea") and not held.agrees(newer)


NAMES = st.sampled_from("abc")
CHANGES = st.one_of(
    st.builds(lambda name, terms: add(name, *terms), NAMES, st.sets(st.sampled_from(TERMS))),
    st.builds(Delete, NAMES),
    st.builds(lambda name: MetadataChange(name, {}), NAMES),
)


@settings(max_examples=200)
@given(
    commits=st.lists(
        st.tuples(st.lists(CHANGES, max_size=4), st.lists(st.sampled_from(TERMS))), max_size=6
    )
)
def test_any_commits(commits: list[tuple[list[Change], list[str]]]) -> None:
    images: Images = {}
    held = HeldTerms(finder(images, []))
    for changes, asked in commits:
        before = {term: any(term in own for own in images.values()) for term in TERMS}
        images = after(images, changes)
        newer = held.after(changes, finder(images, []), TERMS)
        now = {term: any(term in own for own in images.values()) for term in TERMS}
        if not held.agrees(newer):
            assert before != now
        held = newer
        assert [held(term) for term in asked] == [now[term] for term in asked]

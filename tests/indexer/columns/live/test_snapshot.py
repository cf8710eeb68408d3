"""Whatever happens to a live index, each snapshot of its columns answers as the reference does."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from indexer.columns.engine import best_of_newest
from indexer.columns.live import compaction as merging
from indexer.columns.live import newest
from indexer.columns.live import state as tiers
from indexer.columns.live.compaction import Merge
from indexer.columns.live.newest import Newest, NewImage
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import next_number, remove_unlisted
from indexer.store.changes import Change, Delete, MetadataChange
from sparta.errors import InputError
from tests.indexer.columns.corpus import VOCABULARY as TERMS
from tests.indexer.columns.corpus import new_images
from tests.indexer.columns.live.images import (
    VOCABULARY,
    Images,
    add,
    build,
    compact,
    expected,
    found,
)

ids = st.integers(0, 30).map(lambda number: f"{'é' if number % 3 else 'z'}/{number:02}")
terms = st.integers(0, 5) | st.just(VOCABULARY - 1)  # few, so that many images tie
levels = st.sampled_from([1, 1, 2, 3, 250])
impacts = st.dictionaries(terms, levels, max_size=4)
sizes = st.fixed_dictionaries({"width": st.integers(0, 9)})
queries = st.dictionaries(terms, st.integers(1, 3), max_size=6)
changes = st.one_of(
    st.builds(add, ids, impacts, sizes),
    st.builds(add, ids, impacts, sizes),
    st.builds(MetadataChange, ids, sizes),
    st.builds(Delete, ids),
)


def apply(images: Images, change: Change) -> None:
    key = change.image_id
    if isinstance(change, MetadataChange):
        if key in images:
            images[key] = (change.metadata, images[key][1])
    elif isinstance(change, Delete):
        images.pop(key, None)
    else:
        own = change.image
        weights = dict(zip(own.terms.tolist(), own.impacts.tolist(), strict=True))
        images[key] = (own.metadata, weights)


class LiveIndex(RuleBasedStateMachine):
    """Adds, replaces, deletes, compactions, merges and openings in any order."""

    snapshots: list[tuple[LiveColumns, Images]]

    @initialize(
        images=st.dictionaries(ids, st.tuples(sizes, impacts), max_size=25),
        bits=st.sampled_from([8, 16]),
    )
    def built(self, images: Images, bits: int) -> None:
        self.work = TemporaryDirectory()
        self.index, self.bits = Path(self.work.name) / "index", bits
        build(self.index, images, bits)
        self.state, self.images, self.log = 0, dict(images), list[Change]()
        self.merge: Merge | None = None
        self.columns = LiveColumns.open(self.index, 0, VOCABULARY, bits)
        self.snapshots = []

    @rule(batch=st.lists(changes, max_size=8))
    def write(self, batch: list[Change]) -> None:
        self.snapshots = [*self.snapshots[-2:], (self.columns, dict(self.images))]
        for change in batch:
            apply(self.images, change)
        self.log += batch
        self.columns = self.columns.after(batch)

    @rule()
    def compacted(self) -> None:
        number = next_number(self.index)
        compact(self.index, self.state, self.log, number, self.bits)
        self.state, self.log = number, []
        self.opened()

    @precondition(lambda self: self.merge is None)
    @rule()
    def merge_begun(self) -> None:
        self.merge = Merge.due(self.index, self.state, next_number(self.index))
        if self.merge:
            self.merge.write()

    @precondition(lambda self: self.merge is not None)
    @rule()
    def merge_ended(self) -> None:
        assert self.merge
        number = next_number(self.index)
        self.merge.save(self.state, number)
        self.state, self.merge = number, None
        self.opened()

    @rule(afresh=st.booleans())
    def opened(self, afresh: bool = False) -> None:
        if self.merge is None:
            remove_unlisted(self.index, {self.state})
        previous = None if afresh else self.columns
        self.columns = LiveColumns.open(self.index, self.state, VOCABULARY, self.bits, previous)
        self.columns = self.columns.after(self.log)

    @rule(
        terms=queries,
        k=st.integers(1, 12) | st.just(1000),
        allowed=st.none() | st.sets(ids, max_size=40),
    )
    def searched(self, terms: dict[int, int], k: int, allowed: set[str] | None) -> None:
        for columns, images in [*self.snapshots, (self.columns, self.images)]:
            assert found(columns, terms, k, allowed) == expected(images, terms, k, allowed)

    @rule(image_id=ids)
    def looked_up(self, image_id: str) -> None:
        document = self.columns.document(image_id)
        if image_id not in self.images:
            assert document is None
            return
        metadata, impacts = self.images[image_id]
        assert document is not None
        assert self.columns.stored(document) == (image_id, metadata)
        every = list(range(VOCABULARY))
        assert self.columns.impacts([document, document], every).tolist() == 2 * [
            [impacts.get(term, 0) for term in every]
        ]

    @invariant()
    def counted(self) -> None:
        assert len(self.columns) == len(self.images)

    @invariant()
    def impacts_of_terms_are_those_of_the_images(self) -> None:
        term = VOCABULARY - 1
        own = self.columns.term_impacts(term)
        assert len(own) == self.columns.documents
        held = {self.columns.stored(int(one)).image_id: int(own[one]) for one in own.nonzero()[0]}
        weights = {image_id: found.get(term, 0) for image_id, (_, found) in self.images.items()}
        assert held == {image_id: impact for image_id, impact in weights.items() if impact}

    def teardown(self) -> None:
        if hasattr(self, "work"):
            self.work.cleanup()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices and merges of few images."""
    monkeypatch.setattr(newest, "CAPACITY", 8)
    monkeypatch.setattr(tiers, "CAPACITY", 8)
    monkeypatch.setattr(tiers, "FAN", 2)
    monkeypatch.setattr(merging, "IMAGES_AT_ONCE", 5)


@pytest.mark.usefixtures("either_kernel", "few")
def test_every_snapshot_answers_exactly() -> None:
    run_state_machine_as_test(LiveIndex, settings=settings(max_examples=25, stateful_step_count=25))


def test_long_queries_do_not_overflow(tmp_path: Path) -> None:
    full = dict.fromkeys(range(VOCABULARY), 255)
    build(tmp_path, {"a": ({}, full)}, 8)
    replaced: list[Change] = [Delete("a"), add("b", full)]
    for written in (replaced[:0], replaced):
        columns = LiveColumns.open(tmp_path, 0, VOCABULARY, 8).after(written)
        for count in (1, 300, 300_000):
            [(_, score)] = found(columns, dict.fromkeys(full, count), 1)
            assert score == VOCABULARY * 255 * count
        with pytest.raises(ValueError, match="too long"):
            columns.top(dict.fromkeys(full, 400_000), 1)
        with pytest.raises(ValueError, match="at least 1"):
            columns.top({1: 1}, 0)


def test_only_changed_segments_are_opened_again(tmp_path: Path) -> None:
    build(tmp_path, {"a": ({}, {1: 1})}, 8)
    before = LiveColumns.open(tmp_path, 0, VOCABULARY, 8)
    compact(tmp_path, 0, [add("b", {1: 2})], 1)
    after = LiveColumns.open(tmp_path, 1, VOCABULARY, 8, before)
    assert after.segments.all[0] is before.segments.all[0]
    assert found(after, {1: 1}, 5) == [("b", 2), ("a", 1)]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 20])
def test_ties_are_in_the_order_of_the_ids(tmp_path: Path, k: int) -> None:
    """Images of equal scores in the base, in two later segments and among the newest."""
    own: Images = {
        key: ({}, {3: 2 + (number % 3 == 0)}) for number, key in enumerate("gcakbmflhdeij")
    }
    parts = [dict(list(own.items())[place::4]) for place in range(4)]
    build(tmp_path, parts[0], 8)
    columns = LiveColumns.open(tmp_path, 0, VOCABULARY, 8)
    for number, part in enumerate(parts[1:], start=1):
        added = [add(key, impacts) for key, (_, impacts) in part.items()]
        columns = columns.after(added)
        if number < 3:
            compact(tmp_path, number - 1, added, number)
            columns = LiveColumns.open(tmp_path, number, VOCABULARY, 8, columns)
    # Equal ones that come first by number and later by id, more than are wanted.
    assert found(columns, {3: 1}, k) == expected(own, {3: 1}, k)
    assert found(columns, {3: 1, 4: 1}, k) == expected(own, {3: 1, 4: 1}, k)
    assert found(columns, {3: 1}, k, set("abfgkm")) == expected(own, {3: 1}, k, set("abfgkm"))


def test_a_write_that_fails_and_one_beside_it_change_no_other_snapshot() -> None:
    own, every = new_images(20), list(range(TERMS))
    before = Newest.empty(TERMS, 8).after(own[:10])
    with pytest.raises(ValueError, match="shape mismatch"):
        before.after([own[10], NewImage("broken", {}, np.arange(3), np.ones(4, np.int32), "")])
    for later in (own[12:14], own[14:20]):
        after, alone = before.after(later), Newest.empty(TERMS, 8).after(later)
        places = range(len(later))
        np.testing.assert_array_equal(
            after.impacts(range(10, len(after)), every), alone.impacts(places, every)
        )
        assert [after.stored(10 + i) for i in places] == [alone.stored(i) for i in places]
    assert len(before) == 10


def test_searches_go_on_while_images_are_appended() -> None:
    own = new_images(400)
    found = [Newest.empty(TERMS, 8).after(own[:100])]
    terms, counts = np.array([35, 36, 38]), np.array([1, 1, 2], np.uint32)
    stop, answers = threading.Event(), set[str]()

    def search() -> None:
        every = np.empty(0, np.bool_)
        while not stop.is_set():
            answers.add(str(best_of_newest(found[0].columns, 100, terms, counts, every, 10, 0)))

    thread = threading.Thread(target=search)
    thread.start()
    for image in own[100:]:
        found.append(found[-1].after([image]))
    stop.set()
    thread.join()
    assert len(answers) == 1 and "[]" not in answers.pop()
    assert len(found[-1]) == 400


@pytest.mark.parametrize(
    ("term", "impact", "name"),
    [(TERMS, 1, "terms"), (-1, 1, "terms"), (0, 256, "impacts"), (0, -1, "impacts")],
)
def test_terms_and_impacts_out_of_range_are_refused(term: int, impact: int, name: str) -> None:
    image = NewImage("a", {}, np.array([term]), np.array([impact]), "")
    with pytest.raises(InputError, match=f"{name} of the images must be from 0 to"):
        Newest.empty(TERMS, 8).after([image])


def test_untouched_pages_are_not_in_memory() -> None:
    """A quarter of a gigabyte is reserved, of which a few images take some pages."""

    def resident() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("VmRSS")]
        return int(line.split()[1])

    before = resident()
    image = NewImage("a", {}, np.arange(0, 30_000, 100), np.full(300, 3), "")
    found = Newest.empty(30_000, 16).after([image] * 10)
    assert len(found) == 10
    assert resident() - before < 20_000  # kilobytes


def test_fields_of_full_parts_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "PART", 4)
    first = Newest.empty(TERMS, 8).after(new_images(6))
    second = first.after(
        [image._replace(metadata={"width": "x"}) for image in new_images(1, seed=1)]
    )
    before, after = first.fields({}), second.fields({"path": "keyword"})
    assert [part.images for part in before] == [4, 2]
    assert [part.images for part in after] == [4, 3]
    assert after[0] is before[0]
    assert after[1].columns["width"].values.tolist() == [4, 5]

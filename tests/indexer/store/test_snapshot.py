"""Whatever happens to an index, each of its snapshots answers as the reference does."""

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
    rule,
    run_state_machine_as_test,
)

from indexer.columns.engine import best_of_newest
from indexer.store import compaction, memtable
from indexer.store.changes import Change, Delete, MetadataChange
from indexer.store.memtable import Memtable, NewImage
from indexer.store.snapshot import Snapshot
from indexer.update import writer as writing
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from tests.indexer.columns.corpus import VOCABULARY as TERMS
from tests.indexer.columns.corpus import new_images
from tests.indexer.live_index import Opened
from tests.indexer.store.images import (
    VOCABULARY,
    Images,
    add,
    apply,
    build,
    expected,
    found,
    image,
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


class LiveIndex(RuleBasedStateMachine):
    """Changes, compactions, merges, writers that end or are killed, and openings in any order."""

    snapshots: list[tuple[Snapshot, Images]]

    @initialize(
        images=st.dictionaries(ids, st.tuples(sizes, impacts), max_size=25),
        bits=st.sampled_from([8, 16]),
    )
    def built(self, images: Images, bits: int) -> None:
        self.work = TemporaryDirectory()
        self.index = build(Path(self.work.name) / "index", images, bits)
        self.images, self.snapshots = dict(images), []
        self.snapshot = Snapshot.open(self.index)
        self.opened = Opened(self.index)

    def refreshed(self) -> None:
        self.snapshot = self.snapshot.refreshed() or self.snapshot

    @rule(batch=st.lists(changes, max_size=8))
    def write(self, batch: list[Change]) -> None:
        self.snapshots = [*self.snapshots[-2:], (self.snapshot, dict(self.images))]
        possible, there = [], set(self.images)
        for change in batch:
            if isinstance(change, MetadataChange) and change.image_id not in there:
                continue
            possible.append(change)
            there -= {change.image_id}
            there |= set() if isinstance(change, Delete) else {change.image_id}
        self.opened.writer.write(possible)
        self.opened.writer.commit()
        for change in possible:
            apply(self.images, change)
        self.refreshed()

    @rule()
    def compacted(self) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(writing, "COMPACT_AT", 0)
            self.opened.writer.commit()
        self.opened.writer.settle()
        self.opened.writer.commit()
        self.refreshed()

    @rule()
    def merged(self) -> None:
        self.opened.writer.merge()
        self.refreshed()
        assert len(self.snapshot.segments.all) == bool(self.images)
        assert self.snapshot.documents == len(self.images)

    @rule(kill=st.booleans())
    def reopened(self, kill: bool) -> None:
        self.opened.kill() if kill else self.opened.close()
        self.opened = Opened(self.index)
        self.refreshed()

    @rule()
    def opened_afresh(self) -> None:
        self.snapshot = Snapshot.open(self.index)

    @rule(
        terms=queries,
        k=st.integers(1, 12) | st.just(1000),
        allowed=st.none() | st.sets(ids, max_size=40),
    )
    def searched(self, terms: dict[int, int], k: int, allowed: set[str] | None) -> None:
        for snapshot, images in [*self.snapshots, (self.snapshot, self.images)]:
            assert found(snapshot, terms, k, allowed) == expected(images, terms, k, allowed)

    @rule(image_id=ids)
    def looked_up(self, image_id: str) -> None:
        document = self.snapshot.document(image_id)
        if image_id not in self.images:
            assert document is None
            return
        metadata, impacts = self.images[image_id]
        assert document is not None
        assert self.snapshot.stored(document) == (image_id, metadata)
        [whole], right = self.snapshot.images([document]), image(image_id, impacts, metadata)
        assert (whole.terms.tolist(), whole.impacts.tolist()) == (
            right.terms.tolist(),
            right.impacts.tolist(),
        )
        assert whole.positions.tolist() == right.positions.tolist()
        np.testing.assert_allclose(whole.inputs.boxes, right.inputs.boxes, atol=1e-5)
        every = list(range(VOCABULARY))
        assert self.snapshot.impacts([document, document], every).tolist() == 2 * [
            [impacts.get(term, 0) for term in every]
        ]

    @invariant()
    def counted(self) -> None:
        assert len(self.snapshot) == self.snapshot.commit.images == len(self.images)

    @invariant()
    def terms_are_those_of_the_images(self) -> None:
        for snapshot, images in [*self.snapshots, (self.snapshot, self.images)]:
            for term in (3, VOCABULARY - 1):
                own = snapshot.term_impacts(term)
                assert len(own) == snapshot.documents
                held = {
                    snapshot.stored(int(one)).image_id: int(own[one]) for one in own.nonzero()[0]
                }
                weights = {key: found.get(term, 0) for key, (_, found) in images.items()}
                assert held == {key: impact for key, impact in weights.items() if impact}
                assert snapshot.largest_impact(term) == max(weights.values(), default=0)

    def teardown(self) -> None:
        if hasattr(self, "work"):
            self.opened.close()
            assert verify_index(self.index) == []
            self.work.cleanup()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices and merges of few images."""
    monkeypatch.setattr(memtable, "CAPACITY", 8)
    monkeypatch.setattr(compaction, "CAPACITY", 8)
    monkeypatch.setattr(compaction, "FAN", 2)
    monkeypatch.setattr(compaction, "IMAGES_AT_ONCE", 5)


@pytest.mark.usefixtures("either_kernel", "few")
def test_every_snapshot_answers_exactly() -> None:
    run_state_machine_as_test(LiveIndex, settings=settings(max_examples=25, stateful_step_count=25))


def test_long_queries_do_not_overflow(tmp_path: Path) -> None:
    full = dict.fromkeys(range(VOCABULARY), 255)
    index = build(tmp_path / "index", {"a": ({}, full)})
    for written in ((), (Delete("a"), add("b", full))):
        with open_writer(index) as writer:
            writer.write(written)
        snapshot = Snapshot.open(index)
        for count in (1, 300, 300_000):
            [(_, score)] = found(snapshot, dict.fromkeys(full, count), 1)
            assert score == VOCABULARY * 255 * count
        with pytest.raises(ValueError, match="too long"):
            snapshot.top(dict.fromkeys(full, 400_000), 1)
        with pytest.raises(ValueError, match="at least 1"):
            snapshot.top({1: 1}, 0)


def write_and_compact(index: Path, changes: list[Change]) -> None:
    with pytest.MonkeyPatch.context() as patched, open_writer(index) as writer:
        patched.setattr(writing, "COMPACT_AT", 0)
        writer.write(changes)
        writer.commit()
        writer.settle()


def test_only_changed_segments_are_opened_again(tmp_path: Path) -> None:
    index = build(tmp_path / "index", {"a": ({}, {1: 1})})
    before = Snapshot.open(index)
    write_and_compact(index, [add("b", {1: 2})])
    after = before.refreshed()
    assert after is not None and len(after.segments.all) == 2
    assert after.segments.all[0] is before.segments.all[0]
    assert found(after, {1: 1}, 5) == [("b", 2), ("a", 1)]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 20])
def test_ties_are_in_the_order_of_the_ids(tmp_path: Path, k: int) -> None:
    """Images of equal scores in the base, in two later segments and among the newest."""
    own: Images = {
        key: ({}, {3: 2 + (number % 3 == 0)}) for number, key in enumerate("gcakbmflhdeij")
    }
    parts = [dict(list(own.items())[place::4]) for place in range(4)]
    index = build(tmp_path / "index", parts[0])
    for part in parts[1:3]:
        write_and_compact(index, [add(key, impacts) for key, (_, impacts) in part.items()])
    with open_writer(index) as writer:
        writer.write([add(key, impacts) for key, (_, impacts) in parts[3].items()])
    snapshot = Snapshot.open(index)
    assert len(snapshot.segments.all) == 3 and len(snapshot.newest[0]) == len(parts[3])
    # Equal ones that come first by number and later by id, more than are wanted.
    assert found(snapshot, {3: 1}, k) == expected(own, {3: 1}, k)
    assert found(snapshot, {3: 1, 4: 1}, k) == expected(own, {3: 1, 4: 1}, k)
    assert found(snapshot, {3: 1}, k, set("abfgkm")) == expected(own, {3: 1}, k, set("abfgkm"))


def test_a_write_that_fails_and_one_beside_it_change_no_other_snapshot() -> None:
    own, every = new_images(20), list(range(TERMS))
    before = Memtable.empty(TERMS, 8).after(own[:10])
    with pytest.raises(ValueError, match="shape mismatch"):
        before.after([own[10], NewImage("broken", {}, np.arange(3), np.ones(4, np.int32), "", b"")])
    for later in (own[12:14], own[14:20]):
        after, alone = before.after(later), Memtable.empty(TERMS, 8).after(later)
        places = range(len(later))
        np.testing.assert_array_equal(
            after.impacts(range(10, len(after)), every), alone.impacts(places, every)
        )
        assert [after.stored(10 + i) for i in places] == [alone.stored(i) for i in places]
    assert len(before) == 10


def test_searches_go_on_while_images_are_appended() -> None:
    own = new_images(400)
    found = [Memtable.empty(TERMS, 8).after(own[:100])]
    terms, counts = np.array([35, 36, 38]), np.array([1, 1, 2], np.uint32)
    stop, answers = threading.Event(), set[str]()

    def search() -> None:
        every = np.empty(0, np.bool_)
        while not stop.is_set():
            answers.add(str(best_of_newest(found[0].columns, 100, terms, counts, every, 10, 0)))

    thread = threading.Thread(target=search)
    thread.start()
    for one in own[100:]:
        found.append(found[-1].after([one]))
    stop.set()
    thread.join()
    assert len(answers) == 1 and "[]" not in answers.pop()
    assert len(found[-1]) == 400


@pytest.mark.parametrize(
    ("term", "impact", "name"),
    [(TERMS, 1, "terms"), (-1, 1, "terms"), (0, 256, "impacts"), (0, -1, "impacts")],
)
def test_terms_and_impacts_out_of_range_are_refused(term: int, impact: int, name: str) -> None:
    image = NewImage("a", {}, np.array([term]), np.array([impact]), "", b"")
    with pytest.raises(InputError, match=f"{name} of the images must be from 0 to"):
        Memtable.empty(TERMS, 8).after([image])


def test_untouched_pages_are_not_in_memory() -> None:
    """A quarter of a gigabyte is reserved, of which a few images take some pages."""

    def resident() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("VmRSS")]
        return int(line.split()[1])

    before = resident()
    image = NewImage("a", {}, np.arange(0, 30_000, 100), np.full(300, 3), "", b"")
    found = Memtable.empty(30_000, 16).after([image] * 10)
    assert len(found) == 10
    assert resident() - before < 20_000  # kilobytes


def test_fields_of_full_parts_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtable, "PART", 4)
    first = Memtable.empty(TERMS, 8).after(new_images(6))
    second = first.after(
        [image._replace(metadata={"width": "x"}) for image in new_images(1, seed=1)]
    )
    before, after = first.fields({}), second.fields({"path": "keyword"})
    assert [part.images for part in before] == [4, 2]
    assert [part.images for part in after] == [4, 3]
    assert after[0] is before[0]
    assert after[1].columns["width"].values.tolist() == [4, 5]

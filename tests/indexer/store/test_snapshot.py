"""Whatever happens to an index, each of its snapshots answers as the reference does."""

import threading
from operator import attrgetter
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

from indexer.columns.index import kernel
from indexer.postings import ImagePostings
from indexer.store import compaction, memtable
from indexer.store.changes import Change, Delete, MetadataChange
from indexer.store.memtable import Memtable, NewImage
from indexer.store.snapshot import Snapshot
from indexer.update import writer as writing
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from tests.indexer.live_index import LiveReference, Opened
from tests.indexer.store.images import VOCABULARY as TERMS
from tests.indexer.store.images import Impacts, add, build, compact, found, image, new_images
from tests.indexer.vocabulary import TOKENIZER

VOCABULARY = len(TOKENIZER.vocabulary)

ids = st.integers(0, 30).map(lambda number: f"{'é' if number % 3 else 'z'}/{number:02}")
terms = st.integers(0, 5) | st.just(VOCABULARY - 1)  # few, so that many images tie
levels = st.sampled_from([1, 1, 2, 3, 250])
impacts = st.dictionaries(terms, levels, max_size=4)
sizes = st.fixed_dictionaries({"width": st.integers(0, 9)})
queries = st.dictionaries(terms, st.integers(1, 3), max_size=6)
added = st.builds(image, ids, impacts, sizes)
changes = st.one_of(
    st.builds(add, ids, impacts, sizes),
    st.builds(add, ids, impacts, sizes),
    st.builds(MetadataChange, ids, sizes),
    st.builds(Delete, ids),
)


def expected(
    right: LiveReference, terms: Impacts, k: int, allowed: set[str] | None = None
) -> list[tuple[str, int]]:
    """What `found` returns, by the reference scorer."""
    words = {TOKENIZER.vocabulary[term]: count for term, count in terms.items()}
    every = sorted(right.images)
    mask = None if allowed is None else [one in allowed for one in every]
    return [(every[row], int(score)) for row, score in right.searcher().top(words, k, mask)]


class LiveIndex(RuleBasedStateMachine):
    """Changes, compactions, merges, writers that end or are killed, and openings in any order."""

    snapshots: list[tuple[Snapshot, LiveReference]]

    @initialize(
        images=st.lists(added, max_size=25, unique_by=attrgetter("image_id")),
        bits=st.sampled_from([8, 16]),
    )
    def built(self, images: list[ImagePostings], bits: int) -> None:
        self.work = TemporaryDirectory()
        self.index = build(Path(self.work.name) / "index", images, bits)
        self.right, self.snapshots = LiveReference(images), []
        self.snapshot = Snapshot.open(self.index)
        self.opened = Opened(self.index)

    def refreshed(self) -> None:
        newer = self.snapshot.refreshed()
        self.snapshot = self.snapshot if newer is None else newer  # one without images is false

    @rule(batch=st.lists(changes, max_size=8))
    def write(self, batch: list[Change]) -> None:
        former = LiveReference(self.right.images.values())
        self.snapshots = [*self.snapshots[-2:], (self.snapshot, former)]
        possible = []
        for change in batch:
            if not isinstance(change, MetadataChange) or change.image_id in self.right.images:
                possible.append(change)
                self.right.apply([change])
        self.opened.writer.write(possible)
        self.opened.writer.commit()
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
        assert len(self.snapshot.segments.all) == bool(self.right.images)
        assert self.snapshot.documents == len(self.right.images)

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
        for snapshot, right in [*self.snapshots, (self.snapshot, self.right)]:
            assert found(snapshot, terms, k, allowed) == expected(right, terms, k, allowed)

    @rule(image_id=ids)
    def looked_up(self, image_id: str) -> None:
        document, writer = self.snapshot.document(image_id), self.opened.writer
        if (right := self.right.images.get(image_id)) is None:
            assert document is None and image_id not in writer
            return
        assert image_id in writer and writer.metadata(image_id) == right.metadata
        assert document is not None
        assert self.snapshot.stored(document) == (image_id, right.metadata)
        [whole] = self.snapshot.images([document])
        for name in ("terms", "impacts", "positions"):
            assert getattr(whole, name).tolist() == getattr(right, name).tolist()
        np.testing.assert_allclose(whole.inputs.boxes, right.inputs.boxes, atol=1e-5)
        own = np.zeros(VOCABULARY, np.int64)
        own[right.terms] = right.impacts
        twice = self.snapshot.impacts([document, document], range(VOCABULARY))
        assert twice.tolist() == 2 * [own.tolist()]

    @invariant()
    def counted(self) -> None:
        assert len(self.snapshot) == self.snapshot.commit.images == len(self.right.images)

    @invariant()
    def terms_are_those_of_the_images(self) -> None:
        for snapshot, right in [*self.snapshots, (self.snapshot, self.right)]:
            for term in (3, VOCABULARY - 1):
                own = snapshot.term_impacts(term)
                assert len(own) == snapshot.documents
                held = {
                    snapshot.stored(int(one)).image_id: int(own[one]) for one in own.nonzero()[0]
                }
                weights = {
                    key: int(one.impacts[one.terms == term][0])
                    for key, one in right.images.items()
                    if term in one.terms
                }
                assert held == weights
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
    index = build(tmp_path / "index", [image("a", full)])
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


def test_only_changed_segments_are_opened_again(tmp_path: Path) -> None:
    index = build(tmp_path / "index", [image("a", {1: 1})])
    before = Snapshot.open(index)
    compact(index, [add("b", {1: 2})])
    after = before.refreshed()
    assert after is not None and len(after.segments.all) == 2
    assert after.segments.all[0] is before.segments.all[0]
    assert found(after, {1: 1}, 5) == [("b", 2), ("a", 1)]


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
            answers.add(
                str(kernel.best_of_newest(found[0].columns, 100, terms, counts, every, 10, 0))
            )

    thread = threading.Thread(target=search)
    thread.start()
    for one in own[100:]:
        found.append(found[-1].after([one]))
    stop.set()
    thread.join()
    assert len(answers) == 1 and "[]" not in answers.pop()
    assert len(found[-1]) == 400


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

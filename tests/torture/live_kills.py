"""Writers killed at random moments: what was acknowledged stays, nothing is half there.

Changes are drawn from their number, so that the state after any number of writes is known without
the killed process. Half of the kills come from its start on, which meets the conversion of the
index and the replay of the log; the others while it writes.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from indexer.engines.open import open_index
from indexer.search.searcher import Searcher
from indexer.store import compaction
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.update import writer
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from tests.indexer.live_index import QUERIES, LiveReference, answer
from tests.indexer.random_postings import random_postings, shards_of, write_postings
from tests.indexer.vocabulary import small_tokenizer
from tests.reference.searcher import ReferenceSearcher
from tests.torture.kills import Processes, Report, Row, repeat

IMAGES = 60
TOKENIZER = small_tokenizer()
BUILT = random_postings(TOKENIZER, IMAGES)
POOL = list(random_postings(TOKENIZER, 2 * IMAGES, seed=1))
PRELOADED = ("indexer.update.writer", "tests.torture.live_kills")
MOST_WRITES = 30  # before a kill
RIGHT = {
    "visible": ("a commit",),
    "recovered": ("all that was acknowledged",),
    "verify": ("no damage",),
}

State = list[Any]  # answers to some queries


def kill_writers(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Kill so many writers of one index; returns what happened, and what should not have."""
    with Processes(*PRELOADED) as processes:
        place = _Place(work / "index", processes)
        found = repeat(count, seed, report, place.kill, RIGHT)
    return {**found, "acknowledged": place.acknowledged}


class _Place:
    """An index whose writers are killed one after another.

    Attributes:
        acknowledged: writes of all writers.
    """

    def __init__(self, index: Path, processes: Processes) -> None:
        write_postings(index, shards_of(BUILT, 30), TOKENIZER)
        self._index, self._processes = index, processes
        self._writes, self._images = 0, LiveReference(BUILT)
        self._opening = 0.0  # seconds, as last measured
        self.acknowledged = 0

    def kill(self, rng: random.Random, number: int) -> Row:
        """Kill a writer, look at the index, let another writer recover it and look again."""
        here, there = self._processes.pipe()
        child = self._processes.start(_write, self._index, self._writes, there)
        there.close()
        if number % 2:
            seen, after = 0, rng.uniform(0, 1.5 * self._opening)
        else:
            seen, after = self._wait(here, rng.randrange(MOST_WRITES)), rng.uniform(0, 0.02)
        time.sleep(after)
        child.kill()
        child.join()
        acknowledged = seen + _count(here)
        self.acknowledged += acknowledged
        # One more may be in the log: written when the kill came, and not acknowledged.
        after_writes = list(_references(self._images, self._writes, acknowledged + 1))
        states = [_state_of(reference) for reference in after_writes]
        visible = self._find(_look, states)
        recovered = self._find(_recover, states[-2:])
        problems = self._processes.run(verify_index, self._index)
        if recovered is not None:
            recovered += acknowledged
            self._writes, self._images = self._writes + recovered, after_writes[recovered]
        return {
            "killed_at": f"{after:.3f} s after " + (f"write {seen}" if seen else "its start"),
            "acknowledged": acknowledged,
            "visible": "wrong" if visible is None else "a commit",
            "recovered": "wrong" if recovered is None else "all that was acknowledged",
            "verify": "; ".join(problems) or "no damage",
        }

    def _wait(self, here: Connection, writes: int) -> int:
        """Wait until a writer has opened the index and reported so many writes."""
        started = time.monotonic()
        here.recv()
        self._opening = time.monotonic() - started
        for _ in range(writes):
            here.recv()
        return writes

    def _find(self, look: Callable[[Path], State], states: list[State]) -> int | None:
        """Which of some states the index has, None if it has another."""
        found = self._processes.run(look, self._index)
        return states.index(found) if found in states else None


def _references(first: LiveReference, number: int, writes: int) -> Iterator[LiveReference]:
    """The images before so many writes, and after each of them."""
    yield first
    for write in range(number, number + writes):
        first = LiveReference(first.images.values())
        first.apply(_changes(write, first))
        yield first


def _changes(number: int, before: LiveReference) -> list[Change]:
    """The changes of a write, which are drawn from its number."""
    rng = random.Random(number)
    changes: list[Change] = []
    for _ in range(rng.randrange(1, 6)):
        image = replace(rng.choice(POOL), metadata={"write": number})
        if rng.random() < 0.6:
            changes.append(Add(image))
        elif before.images and rng.random() < 0.5:
            changes.append(Delete(rng.choice(sorted(before.images))))
    ids = sorted(before.images.keys() - {change.image_id for change in changes})
    return [*changes, *(MetadataChange(one, {"write": number}) for one in ids[: number % 3])]


def _write(index: Path, number: int, there: Connection) -> None:
    """Write until the end, and report each write once it is synced."""
    _compact_often()
    *_, images = _references(LiveReference(BUILT), 0, number)
    with open_writer(index) as opened:
        there.send("opened")
        while True:
            changes = _changes(number, images)
            opened.sync(opened.write(changes))
            there.send("written")
            images.apply(changes)
            number += 1
            if number % 7 == 0:
                opened.commit()


def _compact_often() -> None:
    """Let kills meet compactions and merges too; for a process of its own."""
    writer.COMPACT_AT = 20
    compaction.FAN = 2


def _count(here: Connection) -> int:
    """How many writes a killed writer reported."""
    count = 0
    try:
        while True:
            count += here.recv() == "written"
    except EOFError:
        return count


def _state_of(images: LiveReference) -> State:
    return _answers(images.searcher(TOKENIZER))


def _look(index: Path) -> State:
    return _answers(open_index(index))


def _answers(searcher: Searcher | ReferenceSearcher) -> State:
    """What a searcher answers; it is closed."""
    found = [searcher.search(query, 1000) for query in QUERIES]
    searcher.close()
    return [(answer(one), [hit.metadata for hit in one.hits], one.unknown) for one in found]


def _recover(index: Path) -> State:
    _compact_often()
    with open_writer(index):
        pass
    return _look(index)

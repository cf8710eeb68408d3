"""Commits, the change log, and what the user gave: synced records stay, damage is reported."""

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import Commit, read_commit
from indexer.store.given import FILE, Given, read_given, write_given
from indexer.store.images import content_id_of
from indexer.store.log import HEADER_BYTES, MAGIC, ChangeLog, _header, read_log
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.random_postings import random_postings
from tests.indexer.vocabulary import TOKENIZER


def test_damage_of_a_commit_is_noticed(tmp_path: Path) -> None:
    Commit(17, 3).save(tmp_path)
    path = tmp_path / "commit.json"
    whole = path.read_text()
    for damaged in (whole.replace("17", "18"), whole[:-9], "[]", ""):
        path.write_text(damaged)
        with pytest.raises(InputError, match=r"commit.json is damaged: restore a snapshot"):
            read_commit(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"commit.json is missing: restore a snapshot, or build"):
        read_commit(tmp_path)


@pytest.mark.parametrize(
    ("later", "continues"),
    [
        (Commit(7, 1, 90, "a", "", 0), True),
        (Commit(5, 1, 70, "a", "", 0), True),  # the same
        (Commit(4, 1, 60, "a", "", 0), False),  # an older state was restored
        (Commit(8, 1, 95, "b", "a", 5), True),
        (Commit(8, 1, 95, "b", "a", 6), True),
        (Commit(8, 1, 95, "b", "a", 4), False),  # restored, and written to again
        (Commit(9, 1, 99, "c", "b", 8), False),  # unknown: what is between is not there
        (Commit(9, 1, 99), False),
    ],
)
def test_a_commit_of_a_copy_continues_only_what_the_copy_has(
    later: Commit, continues: bool
) -> None:
    assert later.continues(Commit(5, 1, 70, "a", "", 0)) == continues
    assert later.continues(Commit())  # the build itself


def test_an_unfinished_record_was_never_acknowledged(tmp_path: Path) -> None:
    Commit().save(tmp_path)
    write_given(tmp_path, {"x": [Given(1, {"a": 1})]})
    whole = (tmp_path / FILE).read_bytes()
    log = ChangeLog(tmp_path / FILE)
    log.append([Given(1, {"a": 1}).record("y")])
    log.close()
    both = (tmp_path / FILE).read_bytes()
    assert list(read_given(tmp_path)) == ["x", "y"]
    (tmp_path / FILE).write_bytes(both[:-1])
    assert list(read_given(tmp_path)) == ["x"]
    (tmp_path / FILE).write_bytes(b"?" + both[1:])
    with pytest.raises(InputError, match=rf"{FILE} is damaged"):
        read_given(tmp_path)
    (tmp_path / FILE).write_bytes(whole)
    log = ChangeLog(tmp_path / FILE)
    end = log.append([Given(1, {"b": 1}).record("x")])
    log.append([Given(1, {"b": 2}).record("x")])
    log.take_back(end)
    log.sync()
    log.close()
    assert [one.fields for one in read_given(tmp_path)["x"]] == [{"a": 1, "b": 1}]


def test_features_and_nothing_else_decide_an_origin(store: FeatureStore) -> None:
    assert len({content_id_of(image) for image in store}) == len(store)
    image = store[0]
    assert content_id_of(image) == content_id_of(replace(image, image_id="other"))
    others = [
        replace(image, width=image.width + 1),
        replace(image, features=image.features + 1),
        replace(image, boxes=image.boxes[::-1]),
        replace(image, labels=("x",) * len(image.labels)),
        replace(image, attributes=("x",) * len(image.attributes)),
    ]
    assert len({content_id_of(one) for one in (image, *others)}) == 6


IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
METADATA = st.dictionaries(IDS, st.integers() | st.text("aé犬") | st.lists(st.booleans()))


# Those that an index may have, and the largest numbers that there are.
POSTINGS = list(random_postings(TOKENIZER, 12))
POSTINGS += [
    replace(
        one,
        terms=one.terms + (2**31 - 1 - one.terms.max()),
        impacts=one.impacts + 2**16 - 256,
        positions=np.full(len(one.terms), 2**15 - 1, np.int16),
    )
    for one in POSTINGS[:3]
]
IMAGES = st.builds(replace, st.sampled_from(POSTINGS), image_id=IDS, metadata=METADATA)
CHANGES = st.builds(Add, IMAGES) | st.builds(MetadataChange, IDS, METADATA) | st.builds(Delete, IDS)


def write_log(path: Path, groups: Sequence[Sequence[Sequence[Change]]]) -> list[int]:
    """Append groups of records, each group synced at its end; returns the records' ends."""
    log, ends = ChangeLog(path), [0]
    for group in groups:
        ends += [log.append(changes) for changes in group]
        log.sync()
    assert log.synced == log.end == path.stat().st_size
    log.close()
    return ends


def deletes(*names: str) -> list[Delete]:
    return [Delete(name) for name in names]


@settings(max_examples=20)
@given(st.lists(st.lists(CHANGES, max_size=3), max_size=5), st.data())
def test_changes_between_two_positions_come_back(
    records: list[list[Change]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        ends = write_log(path, [[changes] for changes in records])
        first = data.draw(st.integers(0, len(records)))
        last = data.draw(st.integers(first, len(records)))
        found = list(read_log(path, ends[first], ends[last]))
        right = [change for changes in records[first:last] for change in changes]
        assert list(map(repr, found)) == list(map(repr, right))


def test_a_log_cut_off_anywhere_keeps_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = write_log(path, [[deletes("a")], [deletes("b", "c"), deletes("d")]])
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        log = ChangeLog(path)
        whole = sum(end <= size for end in ends) - 1
        assert log.end == log.synced == ends[whole] == path.stat().st_size
        log.append(deletes("e"))
        log.sync()
        log.close()
        right = [deletes("a"), deletes("b", "c"), deletes("d")][:whole]
        assert list(read_log(path)) == [*(one for part in right for one in part), Delete("e")]


def test_a_log_cut_off_before_a_commit_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = write_log(path, [[deletes("a")], [deletes("b")]])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{path} is damaged at byte {ends[1]}: build"):
        ChangeLog(path, ends[2])
    with pytest.raises(InputError, match=rf"{path} is damaged at byte {ends[1]}: build"):
        list(read_log(path, ends[1], ends[2]))
    with pytest.raises(InputError, match="damaged at byte 0"):
        list(read_log(path, 0, ends[1] - 1))
    ChangeLog(path, ends[1]).close()
    path.unlink()
    for call in (lambda: list(read_log(path)), lambda: ChangeLog(path, ends[1])):
        with pytest.raises(InputError, match=rf"^{path} is missing: the index is damaged"):
            call()
    ChangeLog(path).close()


def test_a_changed_byte_of_what_was_synced_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = write_log(path, [[deletes("a")], [deletes("b")], [deletes("c")]])
    content = path.read_bytes()
    for place in range(ends[2]):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        at = ends[place >= ends[1]]
        with pytest.raises(InputError, match=rf"^{path} is damaged at byte {at}: build"):
            ChangeLog(path)
        with pytest.raises(InputError, match=f"damaged at byte {at}"):
            list(read_log(path))
        assert path.stat().st_size == len(content)


def test_pages_of_an_unfinished_group_may_reach_the_disk_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = write_log(path, [[deletes("a")], [deletes("b"), deletes(MAGIC.decode()), deletes("d")]])
    content = path.read_bytes()
    path.write_bytes(content[: ends[1]] + bytes(ends[2] - ends[1]) + content[ends[2] :])
    log = ChangeLog(path, ends[1])
    assert log.end == ends[1]
    log.close()
    assert list(read_log(path)) == deletes("a")


@pytest.mark.parametrize("payload", [b"letters", b""])
def test_a_record_of_something_else_is_damage(tmp_path: Path, payload: bytes) -> None:
    (tmp_path / "log").write_bytes(_header(payload, 0) + payload)
    with pytest.raises(InputError, match=r"log is damaged at byte 0: build"):
        list(read_log(tmp_path / "log"))


def test_threads_that_wait_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ChangeLog(tmp_path / "log")
    first, others = log.append(deletes("a")), threading.Barrier(4)
    calls: list[int] = []
    entered, go = threading.Event(), threading.Event()

    def slow(handle: int) -> None:
        calls.append(handle)
        entered.set()
        assert go.wait(30)

    monkeypatch.setattr("indexer.store.log.os.fsync", slow)

    def write(name: str) -> None:
        position = log.append(deletes(name))
        others.wait(30)
        log.sync(position)

    threads = [threading.Thread(target=log.sync, args=(first,))]
    threads[0].start()
    assert entered.wait(30)  # the first sync has begun, and does not count for what follows
    threads += [threading.Thread(target=write, args=(name,)) for name in "bcd"]
    for thread in threads[1:]:
        thread.start()
    others.wait(30)
    go.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 2
    assert log.synced == log.end
    log.sync()
    assert len(calls) == 2  # nothing new
    monkeypatch.undo()
    log.close()


def test_a_record_that_does_not_fit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ChangeLog(tmp_path / "log")
    log.append(deletes("a"))
    write = os.write

    def partly(handle: int, data: memoryview) -> int:
        if len(data) <= HEADER_BYTES:
            raise OSError(28, "No space left on device")
        return write(handle, data[: len(data) - HEADER_BYTES])

    monkeypatch.setattr("indexer.store.log.os.write", partly)
    with pytest.raises(OSError, match="No space left"):
        log.append(deletes("b"))
    monkeypatch.undo()
    log.append(deletes("c"))
    log.sync()
    log.close()
    assert list(read_log(tmp_path / "log")) == deletes("a", "c")


def test_nothing_is_acknowledged_after_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ChangeLog(tmp_path / "log")
    log.append(deletes("a"))

    def fail(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("indexer.store.log.os.fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        log.sync()
    monkeypatch.undo()
    for call in (log.sync, lambda: log.append(deletes("b"))):
        with pytest.raises(OSError, match=r"log could not be synced before: .*Input/output"):
            call()
    log.close()


def test_a_log_that_was_replaced_takes_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write_log(path, [[deletes("a")]])
    log = ChangeLog(path)
    content = path.read_bytes()
    path.rename(tmp_path / "moved")
    assert not log.in_place
    path.write_bytes(content)  # a copy is not the log itself
    assert not log.in_place
    log.append(deletes("b"))
    with pytest.raises(OSError, match="log was replaced while it was written to"):
        log.sync()
    log.close()
    assert path.read_bytes() == content
    log = ChangeLog(path)
    log.close()
    log.close()
    with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
        log.append(deletes("c"))  # another file may have its number by now
    assert path.read_bytes() == content

"""The one writer of an index, divided or not; store/test_snapshot.py has any order of writes."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from indexer.metadata import read_metadata
from indexer.postings import ImagePostings, Postings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import Commit, log_path, read_commit
from indexer.store.compaction import Compactor
from indexer.store.images import UnknownImageError
from indexer.store.log import read_log
from indexer.store.snapshot import Snapshot
from indexer.update import writer as writer_module
from indexer.update.images import delete_images
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from tests.indexer.live_index import LiveReference, Opened, assert_same, write
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import RARE, TOKENIZER

IMAGES = 12


@pytest.fixture(scope="module")
def pool() -> list[ImagePostings]:
    """Images to add, of which some have the ids of the index's."""
    rows = list(random_postings(TOKENIZER, 2 * IMAGES, seed=1))
    return [replace(image, metadata={"pool": i}) for i, image in enumerate(rows)]


def test_a_writer_commits_what_it_writes_and_many_changes_on_its_own(
    built: Path, pool: list[ImagePostings], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_commit(built)
    assert (before.version, before.images) == (0, IMAGES)
    with open_writer(built) as writer:
        assert writer.commit().number == 0
    assert read_commit(built) == before
    assert open_index(built).refreshed() is None
    monkeypatch.setattr(writer_module, "COMMIT_AT", 2)
    with open_writer(built) as writer:
        writer.write([Add(pool[0])])
        assert writer.commit().number == 1
        writer.write([Add(pool[1]), Add(pool[2])])
        assert writer.commit().number == 2


def test_one_writer_at_a_time_and_of_an_index_alone(built: Path) -> None:
    with open_writer(built), pytest.raises(InputError, match=r"index is being written by process"):
        Opened(built)
    Opened(built).close()
    with pytest.raises(InputError, match="is not an index"):
        Opened(built / "away" / "index")
    assert not (built / "away").exists()


def test_changes_are_visible_once_committed(
    built: Path, pool: list[ImagePostings], small: Postings
) -> None:
    new, old = pool[-1], small.ids[0]
    searcher = open_index(built)
    with open_writer(built) as writer:
        first = writer.write([Add(new), MetadataChange(new.image_id, {"a": 1}), Delete(old)])
        assert writer.metadata(new.image_id) == {"a": 1} and old not in writer
        with pytest.raises(UnknownImageError):
            writer.metadata(old)
        writer.sync(first)
        assert old in open_index(built).ids()
        writer.commit()
        commit = read_commit(built)
        assert {0: (commit.log, commit.bytes)} == first
        assert len(writer) == IMAGES and old not in open_index(built).ids()
    assert open_index(built).metadata(new.image_id) == {"a": 1}
    assert searcher.metadata(old) == small.metadata[0]  # as it was opened


def test_deletions_of_what_is_not_there_are_not_logged(
    built: Path, pool: list[ImagePostings], small: Postings
) -> None:
    log, new = log_path(built, 1), pool[-1].image_id
    gone = [Delete(f"nothing/{i}") for i in range(20_000)]
    with open_writer(built) as writer:
        writer.sync(writer.write(gone))
        assert log.stat().st_size == 0
        before = writer.commit()
        # What is added before, in the same record or the log, is deleted, once.
        writer.write([Delete(new), Add(pool[-1]), Delete(new), Delete(new)])
        assert new not in writer
        writer.write([Add(pool[-1])])
        writer.write([Delete(new), *gone, Delete(small.ids[0]), Delete(new)])
        assert new not in writer and small.ids[0] not in writer
        kinds = [type(change) for change in read_log(log)]
        assert kinds == [Add, Delete, Add, Delete, Delete]
        end = log.stat().st_size
        writer.write([Delete(small.ids[0]), Delete(new)])
        assert log.stat().st_size == end
        assert writer.commit().number == before.number + 1
    assert len(open_index(built)) == IMAGES - 1


@pytest.mark.parametrize("name", ["log/000001", "manifest.json"])
def test_a_damaged_folder_is_not_written_to(
    built: Path, pool: list[ImagePostings], name: str
) -> None:
    with open_writer(built) as writer:
        writer.write([Add(pool[-1])])
    path = built / name
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    with pytest.raises(InputError, match=rf"{path}"):
        Opened(built)
    if name != "manifest.json":
        assert "damaged" in verify_index(built)[0]
        path.unlink()
        problem = f"{path} is missing: the index is damaged; build it again"
        assert verify_index(built) == [problem]
        with pytest.raises(InputError, match="000001 is missing"):
            Opened(built)
    path.write_bytes(content)
    Opened(built).close()


def test_threads_write_and_sync_together(
    built: Path, pool: list[ImagePostings], right: LiveReference
) -> None:
    with open_writer(built) as writer:

        def write(own: list[ImagePostings]) -> None:
            for image in own:
                writer.sync(writer.write([Add(image)]))
                writer.commit()

        threads = [threading.Thread(target=write, args=(pool[i::3],)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    right.apply([Add(image) for image in pool])
    assert_same(open_index(built), right.searcher())


def test_others_write_while_one_commits(
    built: Path,
    pool: list[ImagePostings],
    small: Postings,
    right: LiveReference,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, written = threading.Event(), threading.Event()
    save, new = Commit.save, pool[-1].image_id

    def slow(commit: Commit, index: Path) -> None:
        begun.set()
        assert written.wait(10)
        save(commit, index)

    first: list[Change] = [Add(pool[-1]), Delete(small.ids[0]), MetadataChange(small.ids[1], {})]
    second: list[Change] = [
        MetadataChange(new, {"a": 1}),
        Add(pool[-2]),
        MetadataChange(small.ids[1], {"b": 2}),
        Delete(small.ids[2]),
    ]
    with open_writer(built) as writer:
        writer.write(first)
        monkeypatch.setattr(Commit, "save", slow)
        committing = threading.Thread(target=writer.commit)
        committing.start()
        assert begun.wait(10)
        assert small.ids[0] not in writer and new in writer
        assert writer.metadata(small.ids[1]) == {}
        with pytest.raises(InputError, match="has no image"):
            writer.write([MetadataChange(small.ids[0], {})])
        writer.sync(writer.write(second))
        assert writer.metadata(small.ids[1]) == {"b": 2}
        assert writer.metadata(new) == {"a": 1}
        written.set()
        committing.join()
        right.apply(first)
        assert_same(open_index(built), right.searcher())
        assert writer.metadata(new) == {"a": 1}
    right.apply(second)
    assert_same(open_index(built), right.searcher())


def test_a_writer_closes_while_its_columns_are_compacted(
    built: Path, pool: list[ImagePostings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written meanwhile would be enough for the next compaction, which waits."""
    monkeypatch.setattr(writer_module, "COMPACT_AT", 2)
    begun, compact = threading.Event(), Compactor.compact_now

    def slowly(upkeep: Compactor, end: int) -> None:
        begun.set()
        time.sleep(0.3)
        compact(upkeep, end)

    monkeypatch.setattr(Compactor, "compact_now", slowly)
    with open_writer(built) as writer:
        for images in (pool[:3], pool[3:6]):
            writer.write([Add(image) for image in images])
            if not begun.is_set():
                writer.commit()
                assert begun.wait(20)
    verify_index(built)
    found = open_index(built)
    assert [found.metadata(image.image_id) for image in pool[:6]] == [
        image.metadata for image in pool[:6]
    ]


def test_words_come_and_go_with_the_images_that_have_them(built: Path, small: Postings) -> None:
    searcher = open_index(built)
    zebra, dog = (TOKENIZER.vocabulary.index(word) for word in (RARE, "dog"))
    [first, *_] = small
    with_zebra = replace(first, image_id="z", terms=np.array([zebra], np.int32))
    with_zebra = replace(with_zebra, impacts=with_zebra.impacts[:1], positions=first.positions[:1])
    dogs = [image.image_id for image in small if dog in image.terms]

    def look() -> tuple[list[str], list[str], list[str]]:
        unknown = searcher.search(f"dog {RARE} dogs").unknown
        do, zeb = ([one.word for one in searcher.complete(text)] for text in ("do", "zeb"))
        return unknown, do, zeb

    assert look() == ([RARE], ["dog"], [])
    steps: list[tuple[list[Change], Any]] = [
        ([Add(with_zebra)], ([], ["dog"], [RARE])),
        ([Delete(one) for one in dogs[1:]], ([], ["dog"], [RARE])),
        ([Delete(dogs[0]), MetadataChange("z", {"new": 1})], (["dog"], [], [RARE])),
        ([Delete("z")], (["dog", RARE], [], [])),
        ([Add(with_zebra)], (["dog"], [], [RARE])),
    ]
    with open_writer(built) as writer:
        for changes, right in steps:
            writer.write(changes)
            writer.commit()
            searcher = searcher.refreshed() or open_index(built)
            assert look() == right
    searcher.close()


def test_all_changes_of_shards_are_written_or_none(built: Path, small: Postings) -> None:
    divided, ids = built.with_name("divided"), small.ids
    split_index(built, divided, 3)
    with open_writer(divided) as writer:
        with pytest.raises(InputError, match="1 to 32766"):
            writer.write([*map(Delete, ids), Delete("")])
        assert all(image_id in writer for image_id in ids)
        assert writer.metadata(ids[0]) == {"width": 0}
    assert delete_images(divided, ids[1:]) == 1
    with pytest.raises(InputError, match="nothing was deleted"):
        delete_images(divided, [ids[0], "nothing"])
    assert len(open_index(divided)) == 1


def test_an_index_has_at_most_ten_thousand_fields(tmp_path: Path) -> None:
    images, index = random_postings(TOKENIZER, 20), tmp_path / "index"
    write_postings(index, [images], TOKENIZER)
    first, second, *_ = images.ids
    own = [dict.fromkeys([f"f{place}-{n}" for n in range(998)], 1) for place in range(10)]
    write(index, *map(MetadataChange, images.ids, own))
    for merged in (False, True):
        with open_writer(index) as writer:
            if merged:
                writer.merge()
            more = own[0] | {"x0": 1, "x1": 1}, {f"y{n}": 1 for n in range(30)}
            with pytest.raises(InputError, match=r"the field 'y0' .* at most 10,000"):
                writer.write([*map(MetadataChange, (first, second), more)])
            # What has known fields, or those that photos' files have, is written.
            writer.write([MetadataChange(first, own[1]), MetadataChange(second, {"iso": 100})])
            writer.write([MetadataChange(first, own[0]), MetadataChange(second, own[1])])
    assert "f9-997" in (kinds := Snapshot.open(index).kinds) and not {"x0", "y0"} & kinds.keys()


def test_a_file_of_metadata_has_no_more_fields_than_an_index(tmp_path: Path) -> None:
    rows = [{"image": str(n), **{f"{n}-{m}": 1 for m in range(900)}} for n in range(12)]
    (path := tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=r"m\.jsonl, line 12: the field '11-0' is one too many"):
        read_metadata(path)

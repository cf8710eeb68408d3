"""Copies of an index that is written to, snapshots taken, restored and followed, and names."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.maintenance.copies as module
import indexer.update.writer
from indexer.engines.open import open_index
from indexer.filters.syntax import parse_filter
from indexer.maintenance.combine import merge_segments, split_index
from indexer.maintenance.copies import (
    copy_index,
    link_uploads,
    restore_snapshot,
    set_alias,
    take_snapshot,
)
from indexer.manifest import UPLOADS, index_folders
from indexer.postings import Postings
from indexer.search.explanations import Explain
from indexer.search.searcher import Searcher
from indexer.state import bytes_below, newest_version
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.images import UnknownImageError
from indexer.update.images import delete_images
from indexer.update.sync_plan import SeenPhotos
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.files import lock_path
from tests.indexer.live_index import LiveReference, Opened, assert_same, write
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, TOKENIZER


@pytest.fixture
def own(index: Path, tmp_path: Path) -> Path:
    """An index of one's own."""
    return Path(shutil.copytree(index, tmp_path / "own"))


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_index_as_it_was_built_is_linked(index: Path, tmp_path: Path) -> None:
    assert copy_index(index, tmp_path / "copy").version == 0
    assert files(tmp_path / "copy") == files(index)
    assert (tmp_path / "copy" / "manifest.json").samefile(index / "manifest.json")


@pytest.mark.parametrize("compact_at", [4096, 2])
def test_later_writes_change_neither(
    built: Path,
    small: Postings,
    right: LiveReference,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compact_at: int,
) -> None:
    monkeypatch.setattr(indexer.update.writer, "COMPACT_AT", compact_at)
    index, postings = built, small
    others = list(random_postings(TOKENIZER, 11, seed=1))
    with open_writer(index) as writer:
        for number, image in enumerate(others):
            changes: list[Change] = [
                Add(replace(image, image_id=f"n{number}")),
                Delete(postings.ids[number]),
                MetadataChange(postings.ids[-1], {"step": number}),
            ]
            writer.write(changes)
            writer.commit()
            right.apply(changes)
            if number == 6:
                SeenPhotos(tmp_path).save(index)
                unseen: list[Change] = [Add(replace(image, image_id="acknowledged"))]
                writer.sync(writer.write(unseen))
                taken = copy_index(index, tmp_path / "copy")
                then = LiveReference(right.images.values())
                right.apply(unseen)
        monkeypatch.undo()
    copy = tmp_path / "copy"
    assert_same(open_index(copy), then.searcher())
    assert_same(open_index(index), right.searcher())
    assert taken.version == 7 and SeenPhotos.open(copy, tmp_path) is not None
    assert verify_index(copy) == []
    # The next writer applies what was acknowledged, and changes nothing of the other index.
    before = files(index)
    with open_writer(copy) as writer:
        assert "acknowledged" in writer
        writer.write([Delete("n0")])
    then.apply([*unseen, Delete("n0")])
    assert_same(open_index(copy), then.searcher())
    assert files(index) == before


def test_photos_that_were_sent_to_a_server_are_copied(tmp_path: Path, own: Path) -> None:
    copy = tmp_path / "copy"
    (own / UPLOADS / "ab").mkdir(parents=True)
    for name in ("abc.jpg", ".unfinished"):
        (own / UPLOADS / "ab" / name).write_text("photo")
    for name, target in (("self.jpg", "self.jpg"), ("long.jpg", "n" * 300)):
        (own / UPLOADS / "ab" / name).symlink_to(target)
    copy_index(own, copy)
    assert [path.name for path in (copy / UPLOADS / "ab").iterdir()] == ["abc.jpg"]
    assert bytes_below(own / UPLOADS) == 2 * len("photo")
    link_uploads(own, copy)


def test_files_that_cannot_be_linked_are_copied(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_disk(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", other_disk)
    copy_index(index, tmp_path / "copy")
    assert files(tmp_path / "copy") == files(index)
    assert not (tmp_path / "copy" / "manifest.json").samefile(index / "manifest.json")
    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        copy_index(index, tmp_path / "other")


def test_damage_is_no_reason_to_try_again(tmp_path: Path, own: Path) -> None:
    (own / "term_offsets.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"term_offsets\.npy"):
        copy_index(own, tmp_path / "new")
    with pytest.raises(InputError, match="is not an index"):
        copy_index(tmp_path, tmp_path / "new")


def test_an_index_that_is_never_the_same_is_not_copied(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(range(1000))
    monkeypatch.setattr(module, "index_version", lambda _: str(next(versions)))
    with pytest.raises(InputError, match="index changes faster than it can be copied"):
        copy_index(index, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()

    def gone(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(module, "_copy", gone)
    with pytest.raises(InputError, match="index changes faster than it can be copied"):
        copy_index(index, tmp_path / "copy")


def test_a_copy_has_the_files_of_one_index_alone(
    index: Path, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one build: the name is switched, or a folder moved, while it is copied."""
    first, second, name = own, tmp_path / "second", tmp_path / "prod"
    copy_index(index, second)
    for folder, image_id in ((first, "a/00001 é.jpg"), (second, "a/00002 é.jpg")):
        write(folder, Delete(image_id))
    set_alias(name, first)
    link = module.link_file

    def switching() -> None:
        set_alias(name, second)

    def moving() -> None:
        first.rename(tmp_path / "moved")
        second.rename(first)

    for replace_index, gone in ((switching, "a/00001 é.jpg"), (moving, "a/00002 é.jpg")):
        set_alias(name, first)

        def late(source: Path, target: Path, act: Callable[[], None] = replace_index) -> None:
            monkeypatch.setattr(module, "link_file", link)
            link(source, target)
            act()

        monkeypatch.setattr(module, "link_file", late)
        copy = tmp_path / replace_index.__name__
        copy_index(name, copy)
        assert verify_index(copy) == []
        searcher = open_index(copy)
        assert len(searcher) == 299
        with pytest.raises(UnknownImageError, match=gone):
            searcher.metadata(gone)


ALL = parse_filter("path:a*")


@pytest.fixture
def twenty(tmp_path: Path, make_index: MakeIndex) -> Path:
    """An index of twenty images."""
    return make_index(tmp_path / "small", random_postings(TOKENIZER, 20))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_index_that_a_name_stands_for_is_replaced(twenty: Path, tmp_path: Path) -> None:
    take_snapshot(twenty, tmp_path / "snapshot")
    set_alias(tmp_path / "prod", twenty)
    delete_images(twenty, ["a/00001 é.jpg"])
    aside = restore_snapshot(tmp_path / "snapshot", tmp_path / "prod")
    assert aside is not None and aside.name.startswith("small.before-")
    assert (tmp_path / "prod").resolve() == twenty
    assert [len(open_index(path)) for path in (tmp_path / "prod", aside)] == [20, 19]


def test_places_that_are_refused(own: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "notes.txt").touch()
    for out, problem in (
        (there, "there exists: give a new folder for the snapshot"),
        (own / "log" / "x", "x is in the index: give a folder beside it"),
        (Path(".."), "names no folder"),
    ):
        with pytest.raises(InputError, match=problem):
            take_snapshot(own, out)
    with pytest.raises(InputError, match="is not an index"):
        take_snapshot(there, tmp_path / "new")
    with pytest.raises(InputError, match="there is something else than an index"):
        restore_snapshot(own, there)
    with pytest.raises(InputError, match="own is the snapshot itself"):
        restore_snapshot(own, own)
    with pytest.raises(InputError, match="there exists and is no alias"):
        set_alias(there, own)
    for name in ("term_offsets.npy", "tokenizer.json"):
        (own / name).write_bytes(b"x")
    with pytest.raises(InputError, match=r"own is not restored: .* and 1 more"):
        restore_snapshot(own, tmp_path / "new")
    with pytest.raises(InputError, match="is not an index"):
        set_alias(tmp_path / "prod", there)
    assert names(tmp_path) == {"own", "there"} and there.is_dir()


def test_what_another_process_writes_is_not_replaced(
    index: Path, own: Path, tmp_path: Path
) -> None:
    set_alias(name := tmp_path / "prod", own)
    assert lock_path(name) == lock_path(own)
    with open_writer(name):
        for write_too in (lambda: restore_snapshot(index, own), lambda: delete_images(own, ["a"])):
            with pytest.raises(InputError, match="own is being written by process"):
                write_too()


def test_the_former_index_returns_if_the_new_one_cannot_be_placed(
    index: Path, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk")

    monkeypatch.setattr(module, "replace_folder", fails)
    with pytest.raises(OSError, match="disk"):
        restore_snapshot(index, own)
    assert names(tmp_path) == {"own"}
    assert len(open_index(own)) == 300


def deleted(index: Path, *numbers: int) -> None:
    """Delete images, each with a writer and a commit of its own."""
    for number in numbers:
        delete_images(index, [f"a/{number:05d} é.jpg"])


def found(searcher: Searcher) -> set[int]:
    """The images that a searcher finds and explains, by their numbers."""
    hits = searcher.search(COMMON, 1000, explain=Explain()).hits
    assert all(hit.explanation for hit in hits)
    assert {hit.image_id for hit in hits} == set(searcher.ids(ALL))
    return {int(hit.image_id[2:7]) for hit in hits}


def test_a_searcher_refreshed_after_a_restore_finds_what_was_restored(
    twenty: Path, tmp_path: Path
) -> None:
    whole = set(range(20))
    deleted(twenty, 1)
    searcher = open_index(twenty)

    def refreshed(gone: set[int], same: bool = False) -> None:
        nonlocal searcher
        newer = searcher.refreshed()
        assert (newer is None) == same
        if newer is not None:
            searcher.close()
            searcher = newer
        assert found(searcher) == whole - gone

    refreshed({1}, same=True)
    take_snapshot(twenty, tmp_path / "first")
    deleted(twenty, 2)
    refreshed({1, 2})
    take_snapshot(twenty, tmp_path / "second")
    restore_snapshot(tmp_path / "first", twenty)
    refreshed({1})
    # Its commits overtake those that were there: their numbers and positions in the log.
    deleted(twenty, 3)
    refreshed({1, 3})
    restore_snapshot(tmp_path / "second", twenty)
    deleted(twenty, 4, 5)
    restore_snapshot(tmp_path / "first", twenty)
    deleted(twenty, 6, 7, 8)
    refreshed({1, 6, 7, 8})
    # The same numbers, positions and names of files as those of the state before.
    restore_snapshot(tmp_path / "first", twenty)
    deleted(twenty, 9, 6, 7)
    refreshed({1, 6, 7, 9})
    restore_snapshot(tmp_path / "second", twenty)
    refreshed({1, 2})
    searcher.close()


def test_no_two_states_have_one_version(twenty: Path, tmp_path: Path) -> None:
    """Through restores, copies, killed writers, shards, merges and switched names."""
    seen: dict[str, set[str]] = {}

    def note(index: Path) -> None:
        ids = {image_id for one in index_folders(index) for image_id in open_index(one).ids(ALL)}
        assert seen.setdefault(newest_version(index), ids) == ids

    def write_to(index: Path, *numbers: int) -> None:
        for number in numbers:
            deleted(index, number)
            note(index)

    split_index(twenty, sharded := tmp_path / "sharded", 2)
    for index in (twenty, sharded):
        note(index)
        shutil.copytree(index, copy := tmp_path / f"{index.name}-copy")
        write_to(copy, 1, 2)
        write_to(index, 3, 4)
        opened = Opened(index)
        opened.writer.write([Delete("a/00005 é.jpg")])
        opened.writer.commit()
        note(index)
        opened.kill()
        write_to(index, 6)
        merge_segments(copy)
        note(copy)
        set_alias(name := tmp_path / f"{index.name}-name", index)
        note(name)
        set_alias(name, copy)
        write_to(name, 7)
    take_snapshot(twenty, tmp_path / "snapshot")
    for number in (8, 9):
        write_to(twenty, number)
        restore_snapshot(tmp_path / "snapshot", twenty)
        note(twenty)
    assert len(seen) == 20


def test_a_name_is_made_and_switched(index: Path, tmp_path: Path) -> None:
    first = shutil.copytree(index, tmp_path / "7")
    split_index(index, second := tmp_path / "8", 2)
    name = tmp_path / "names" / "prod"
    assert set_alias(name, first) is None
    assert name.resolve() == first
    assert not name.readlink().is_absolute()
    assert set_alias(name, second) == first
    assert name.resolve() == second
    assert len(open_index(name)) == 300
    set_alias(tmp_path / "other", name)
    assert (tmp_path / "other").resolve() == second
    assert [path.name for path in name.parent.iterdir()] == ["prod"]
    shutil.rmtree(second / "shard-001")
    with pytest.raises(InputError, match="shard-001 is not an index"):
        set_alias(name, second)

"""Names of an index, and snapshots of it: taken, restored, followed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import indexer.care.copies as module
from indexer.care.combine import split_index
from indexer.care.copies import restore_snapshot, set_alias, take_snapshot
from indexer.commands.maintain import alias as alias_command
from indexer.engines.open import open_index
from indexer.filters.syntax import parse_filter
from indexer.search.searcher import Explain, Searcher
from indexer.update.images import delete_images
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.files import lock_path, writing
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, TOKENIZER

Copy = Callable[[Path], Path]
ALL = parse_filter("path:a*")


@pytest.fixture
def small(tmp_path: Path, make_index: MakeIndex) -> Path:
    """An index of twenty images."""
    return make_index(tmp_path / "small", random_postings(TOKENIZER, 20))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_snapshot_is_restored_and_the_former_index_put_aside(
    index: Path, make_copy: Copy, tmp_path: Path
) -> None:
    own = make_copy(index)
    delete_images(own, ["a/00007 é.jpg"])
    snapshot = tmp_path / "snapshots" / "first"
    assert take_snapshot(own, snapshot).version == 1
    delete_images(own, ["a/00008 é.jpg"])
    assert restore_snapshot(snapshot, tmp_path / "new") is None
    aside = restore_snapshot(snapshot, own)
    assert aside is not None and aside.name.startswith("own.before-20")
    counts = {path: len(open_index(path)) for path in (own, aside, snapshot, tmp_path / "new")}
    assert list(counts.values()) == [299, 298, 299, 299]
    assert names(tmp_path) == {"own", aside.name, "snapshots", "new"}
    delete_images(own, ["a/00009 é.jpg"])
    assert len(open_index(snapshot)) == 299


def test_the_index_that_a_name_stands_for_is_replaced(small: Path, tmp_path: Path) -> None:
    take_snapshot(small, tmp_path / "snapshot")
    set_alias(tmp_path / "prod", small)
    delete_images(small, ["a/00001 é.jpg"])
    aside = restore_snapshot(tmp_path / "snapshot", tmp_path / "prod")
    assert aside is not None and aside.name.startswith("small.before-")
    assert (tmp_path / "prod").resolve() == small
    assert [len(open_index(path)) for path in (tmp_path / "prod", aside)] == [20, 19]


def test_places_that_are_refused(index: Path, make_copy: Copy, tmp_path: Path) -> None:
    own, there = make_copy(index), tmp_path / "there"
    there.mkdir()
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
    assert names(tmp_path) == {"own", "there"}


def test_a_damaged_snapshot_is_not_restored(index: Path, make_copy: Copy, tmp_path: Path) -> None:
    own = make_copy(index)
    for name in ("term_offsets.npy", "tokenizer.json"):
        (own / name).write_bytes(b"x")
    with pytest.raises(InputError, match=r"own is not restored: .* and 1 more"):
        restore_snapshot(own, tmp_path / "new")
    assert names(tmp_path) == {"own"}


def test_what_another_process_writes_is_not_replaced(
    index: Path, make_copy: Copy, tmp_path: Path
) -> None:
    own = make_copy(index)
    with writing(own), pytest.raises(InputError, match="own is being written by process"):
        restore_snapshot(index, own)


def test_the_former_index_returns_if_the_new_one_cannot_be_placed(
    index: Path, make_copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_copy(index)

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
    small: Path, tmp_path: Path
) -> None:
    whole = set(range(20))
    deleted(small, 1)
    searcher = open_index(small)

    def refreshed(gone: set[int], same: bool = False) -> None:
        nonlocal searcher
        newer = searcher.refreshed()
        assert (newer is None) == same
        if newer is not None:
            searcher.close()
            searcher = newer
        assert found(searcher) == whole - gone

    refreshed({1}, same=True)
    take_snapshot(small, tmp_path / "first")
    deleted(small, 2)
    refreshed({1, 2})
    take_snapshot(small, tmp_path / "second")
    restore_snapshot(tmp_path / "first", small)
    refreshed({1})
    # Its commits overtake those that were there: their numbers and positions in the log.
    deleted(small, 3)
    refreshed({1, 3})
    restore_snapshot(tmp_path / "second", small)
    deleted(small, 4, 5)
    restore_snapshot(tmp_path / "first", small)
    deleted(small, 6, 7, 8)
    refreshed({1, 6, 7, 8})
    # The same numbers, positions and names of files as those of the state before.
    restore_snapshot(tmp_path / "first", small)
    deleted(small, 9, 6, 7)
    refreshed({1, 6, 7, 9})
    restore_snapshot(tmp_path / "second", small)
    refreshed({1, 2})
    searcher.close()


def test_a_searcher_follows_a_name_from_copy_to_copy(small: Path, tmp_path: Path) -> None:
    copy, name = tmp_path / "copy", tmp_path / "prod"
    deleted(small, 1)
    take_snapshot(small, copy)
    set_alias(name, small)
    searcher = open_index(name)
    deleted(copy, 2)  # continues what the searcher has
    deleted(small, 3, 4)
    for folder, gone in ((copy, {1, 2}), (small, {1, 3, 4}), (copy, {1, 2})):
        set_alias(name, folder)
        newer = searcher.refreshed()
        assert newer is not None
        searcher.close()
        searcher = newer
        assert found(searcher) == set(range(20)) - gone
    searcher.close()


def test_another_index_is_restored(small: Path, make_index: MakeIndex, tmp_path: Path) -> None:
    other = make_index(tmp_path / "other", random_postings(TOKENIZER, 7, seed=3))
    searcher = open_index(small, "columns")
    for source, images in ((other, 7), (small.rename(tmp_path / "kept"), 20), (other, 7)):
        restore_snapshot(source, small)
        newer = searcher.refreshed()
        assert newer is not None and len(newer) == images
        searcher.close()
        searcher = newer
    searcher.close()


def test_a_name_is_made_and_switched(index: Path, tmp_path: Path) -> None:
    first = shutil.copytree(index, tmp_path / "7")
    second = shutil.copytree(index, tmp_path / "8")
    name = tmp_path / "names" / "prod"
    assert set_alias(name, first) is None
    assert name.resolve() == first
    assert not name.readlink().is_absolute()
    assert len(open_index(name)) == len(open_index(first))
    assert set_alias(name, second) == first
    assert name.resolve() == second
    set_alias(tmp_path / "other", name)
    assert (tmp_path / "other").resolve() == second
    assert [path.name for path in name.parent.iterdir()] == ["prod"]


def test_what_is_no_index_or_no_alias_stays(index: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an index"):
        set_alias(tmp_path / "prod", tmp_path)
    (tmp_path / "letters").mkdir()
    with pytest.raises(InputError, match="letters exists and is no alias"):
        set_alias(tmp_path / "letters", index)
    assert (tmp_path / "letters").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_writing_through_a_name_locks_the_index(copy: Path, tmp_path: Path) -> None:
    set_alias(tmp_path / "prod", copy)
    assert lock_path(tmp_path / "prod") == lock_path(copy)
    with (
        open_writer(tmp_path / "prod"),
        pytest.raises(InputError, match="is being written by process"),
        open_writer(copy),
    ):
        pass


def test_the_command_says_what_a_name_stood_for(index: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(alias_command)
    for before in ("", f" (before: {index.resolve()})"):
        done = CliRunner().invoke(app, [str(tmp_path / "prod"), str(index)])
        assert done.stdout == f"{tmp_path / 'prod'} stands for {index.resolve()}{before}\n"


def test_a_divided_index_has_names_too(index: Path, tmp_path: Path) -> None:
    split_index(index, tmp_path / "divided", 2)
    set_alias(tmp_path / "prod", tmp_path / "divided")
    assert len(open_index(tmp_path / "prod")) == 300
    shutil.rmtree(tmp_path / "divided" / "shard-001")
    with pytest.raises(InputError, match="shard-001 is not an index"):
        set_alias(tmp_path / "other", tmp_path / "divided")

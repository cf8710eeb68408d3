"""Snapshots are taken and restored whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import indexer.care.snapshots as module
from indexer.care.snapshots import restore_snapshot, take_snapshot
from indexer.search.open import open_index
from indexer.update.delete import delete_images
from sparta.errors import InputError
from sparta.lock import writing

Copy = Callable[[Path], Path]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_there_and_back(index: Path, make_copy: Copy, tmp_path: Path) -> None:
    own = make_copy(index)
    delete_images(own, ["a/00007 é.jpg"])
    snapshot = tmp_path / "snapshots" / "first"
    assert take_snapshot(own, snapshot).version == 2
    delete_images(own, ["a/00008 é.jpg"])
    assert restore_snapshot(snapshot, tmp_path / "new") is None
    aside = restore_snapshot(snapshot, own)
    assert aside is not None and aside.name.startswith("own.before-20")
    counts = {path: len(open_index(path)) for path in (own, aside, snapshot, tmp_path / "new")}
    assert list(counts.values()) == [299, 298, 299, 299]
    assert names(tmp_path) == {"own", aside.name, "snapshots", "new"}
    delete_images(own, ["a/00009 é.jpg"])
    assert len(open_index(snapshot)) == 299


def test_places_that_are_refused(index: Path, make_copy: Copy, tmp_path: Path) -> None:
    own, there = make_copy(index), tmp_path / "there"
    there.mkdir()
    for out, problem in (
        (there, "there exists: give a new folder for the snapshot"),
        (own / "live" / "x", "x is in the index: give a folder beside it"),
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

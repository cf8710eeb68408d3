"""States are whole or absent, and only what belongs to no state is removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState, next_number, remove_unlisted, state_folder
from indexer.columns.manifest import FOLDER
from indexer.live.changes import Delete
from indexer.parts import MANIFEST, describe_parts
from sparta.atomic import MARKER, make_work
from sparta.errors import InputError
from tests.indexer.columns.live.images import VOCABULARY, add, build, compact, found


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """State 3: a base of five images, of which one is deleted, and a segment of two."""
    folder = tmp_path / "index"
    build(folder, {key: ({}, {3: 1}) for key in "abcde"}, 8)
    compact(folder, 0, [add("x", {3: 5}), add("y", {3: 4}), Delete("c")], 3)
    return folder


def live_names(index: Path) -> list[str]:
    return sorted(path.name for path in (index / "live").iterdir())


def test_what_a_killed_writer_left_is_removed_and_nothing_else(index: Path) -> None:
    live = index / "live"
    (live / "log-000003").write_bytes(b"log")
    mine = [live / "segment-000009.txt", live / "segment-9", live / "notes"]
    for path in mine:
        path.mkdir()
    (live / ".segment-000009.work-1-abcdefgh").mkdir()  # killed before its marker was written
    with_content = live / ".segment-000010.work-1-abcdefgh"
    with_content.mkdir()
    (with_content / "thesis.txt").touch()  # nobody's: it has no marker
    compact(index, 3, [], 5)
    (live / "log-000002").write_bytes(b"older log")
    shutil.copytree(live / "segment-000003", live / "segment-000007")
    work = make_work(live / "state-000008")
    assert (work / MARKER).is_file()
    (work / "half").mkdir()
    assert next_number(index) == 11
    remove_unlisted(index, {3})
    assert live_names(index) == sorted(
        [with_content.name, "log-000003", "segment-000003", "state-000003", *(p.name for p in mine)]
    )
    assert (index / FOLDER / MANIFEST).is_file()
    columns = LiveColumns.open(index, 3, VOCABULARY, 8)
    assert found(columns, {3: 1}, 9) == [("x", 5), ("y", 4), *((key, 1) for key in "abde")]


def test_what_others_read_and_write_is_not_removed(index: Path) -> None:
    compact(index, 3, map(Delete, "abdexy"), 5)
    make_work(index / "live" / "segment-000006")
    remove_unlisted(index, {3, 5}, making={6})
    left = live_names(index)
    assert left[0].startswith(".segment-000006.work-")
    assert left[1:] == ["segment-000003", "state-000003", "state-000005"]


def test_columns_that_no_state_lists_are_removed(index: Path) -> None:
    compact(index, 3, map(Delete, "abde"), 4)
    assert list(ColumnState.open(index, 4).segments) == ["live/segment-000003"]
    remove_unlisted(index, {4})
    assert not (index / FOLDER).exists()
    with pytest.raises(InputError, match="columns is missing"):  # a reader of an earlier commit
        LiveColumns.open(index, 0, VOCABULARY, 8)
    assert live_names(index) == ["segment-000003", "state-000004"]
    assert len(LiveColumns.open(index, 4, VOCABULARY, 8)) == 2


def test_nothing_is_left(index: Path) -> None:
    compact(index, 3, map(Delete, "abdexy"), 4)
    columns = LiveColumns.open(index, 4, VOCABULARY, 8)
    assert len(columns) == 0
    assert found(columns, {3: 1}, 9) == []
    assert found(columns.after([add("q", {3: 2})]), {3: 1}, 9) == [("q", 2)]


def test_an_index_as_built_has_its_columns(index: Path) -> None:
    assert next_number(index.parent) == 1
    assert list(ColumnState.open(index, 0).segments) == [FOLDER]


def test_damage_is_named(index: Path) -> None:
    state = state_folder(index, 3)
    bits = state / f"{FOLDER}.npy"
    whole = bits.read_bytes()
    bits.write_bytes(whole[:-1] + bytes([whole[-1] ^ 64]))
    with pytest.raises(InputError, match=r"columns\.npy is damaged"):
        LiveColumns.open(index, 3, VOCABULARY, 8)
    bits.unlink()
    with pytest.raises(InputError, match=r"columns\.npy is missing"):
        LiveColumns.open(index, 3, VOCABULARY, 8)
    bits.write_bytes(whole)
    manifest = index / "live" / "segment-000003" / MANIFEST
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    with pytest.raises(InputError, match=r"manifest\.json is missing, or not the one that"):
        LiveColumns.open(index, 3, VOCABULARY, 8)
    with pytest.raises(InputError, match="is not an index: it has no"):
        LiveColumns.open(index, 4, VOCABULARY, 8)


def test_bits_of_another_segment(index: Path) -> None:
    with pytest.raises(InputError, match="it is of another segment"):
        ColumnState.open(index, 3).live(index, 3, FOLDER, 100)
    assert ColumnState.open(index, 3).live(index, 3, FOLDER, 5).tolist() == [1, 1, 0, 1, 1]


def test_an_image_table_of_another_segment(index: Path) -> None:
    folder = index / FOLDER
    shutil.copy(index / "live" / "segment-000003" / "images.arrow", folder / "images.arrow")
    from indexer.columns.live.segment import Segment
    from indexer.columns.manifest import ColumnManifest

    ColumnManifest.save(folder, "", describe_parts(folder))
    with pytest.raises(InputError, match="the columns have 5 images, the table 2"):
        Segment(folder)

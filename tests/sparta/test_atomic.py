from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparta.atomic import (
    MARKER,
    REPLACED,
    check_name,
    find_work,
    make_work,
    recover,
    remove_work,
    replace_folder,
    work_folder,
)
from sparta.errors import InputError


def folder(path: Path, content: str) -> Path:
    (path / "parts").mkdir(parents=True)
    (path / "complete").write_text(content)
    (path / "parts" / "0").write_text(content)
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    with work_folder(out) as work:
        replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "parts" / "0").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_everything_is_synced_before_and_after_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder(tmp_path / "out", "old")
    work = make_work(out)
    new = folder(work / "new", "new")
    synced: list[str] = []

    def fsync(handle: int) -> None:
        stage = (
            "before" if new.exists() and out.exists() else "between" if new.exists() else "after"
        )
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append(f"{stage} {path.relative_to(tmp_path)}".replace(work.name, "work"))

    monkeypatch.setattr(os, "fsync", fsync)
    replace_folder(new, out, work)
    assert sorted(synced[:-3]) == [
        "before work/new",
        "before work/new/complete",
        "before work/new/parts",
        "before work/new/parts/0",
    ]
    assert synced[-3:] == ["between work", "after work", "after ."]


def test_users_folders_of_any_name_are_left_alone(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    others = [
        "out.old",
        "out.building",
        ".out.work-1-abcdefgh",
        ".out.work-",
        "out.work-1-abcdefgh",
    ]
    for name in others:
        folder(tmp_path / name, "mine")
    # A work folder of another folder of a longer name.
    longer = make_work(tmp_path / "out.work-7")
    with work_folder(out) as work:
        replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "complete").read_text() == "new"
    assert names(tmp_path) == sorted(["out", *others, longer.name])
    assert all((tmp_path / name / "parts" / "0").read_text() == "mine" for name in others)


def test_an_interrupted_replacement_is_undone(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    work = make_work(out)
    out.rename(work / REPLACED)
    recover(out)
    assert (out / "complete").read_text() == "old"
    remove_work(work)
    assert names(tmp_path) == ["out"]


def test_what_a_finished_replacement_left_is_removed(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "new")
    folder(make_work(out) / REPLACED, "old")
    with work_folder(out):
        pass
    assert (out / "complete").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_a_replacement_that_fails_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder(tmp_path / "out", "old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("disk unplugged")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="unplugged"), work_folder(out) as work:
        replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "parts" / "0").read_text() == "old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("marker", ["{", '{"work_of": "other"}', "[]"])
def test_a_folder_with_another_marker_is_no_work_folder(tmp_path: Path, marker: str) -> None:
    out = tmp_path / "out"
    work = make_work(out)
    assert find_work(out) == [work]
    (work / MARKER).write_text(marker)
    assert find_work(out) == []


def test_a_work_folder_killed_while_it_was_made_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (make_work(out) / MARKER).unlink()
    (make_work(out) / MARKER).write_text("")
    recover(out)
    assert names(tmp_path) == []


def test_what_cannot_be_removed_is_left_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    work = make_work(out)
    (work / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: _busy())
        remove_work(work)
    assert find_work(out) == [work]
    remove_work(work)
    assert names(tmp_path) == []


def _busy() -> None:
    raise OSError("busy")


def test_a_replaced_link_is_removed_and_its_target_stays(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", "old")
    out = tmp_path / "out"
    out.symlink_to(target)
    with work_folder(out) as work:
        replace_folder(folder(work / "new", "new"), out, work)
    assert (out / "complete").read_text() == "new" and not out.is_symlink()
    assert (target / "complete").read_text() == "old"


def test_no_parent_no_left_over(tmp_path: Path) -> None:
    assert find_work(tmp_path / "absent" / "out") == []


@pytest.mark.parametrize("path", ["", ".", "..", "a/..", "/"])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="names no folder: give a path that ends in a name"):
        check_name(Path(path))
    check_name(Path("out"))

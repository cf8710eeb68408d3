from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparta.atomic import finish_replacement, replace_folder
from sparta.errors import InputError


def folder(path: Path, content: str) -> Path:
    (path / "parts").mkdir(parents=True)
    (path / "complete").write_text(content)
    (path / "parts" / "0").write_text(content)
    return path


def is_complete(path: Path) -> bool:
    return (path / "complete").is_file()


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    replace_folder(folder(tmp_path / "new", "new"), out)
    assert (out / "parts" / "0").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_everything_is_synced_before_the_first_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, new = folder(tmp_path / "out", "old"), folder(tmp_path / "new", "new")
    synced: list[str] = []

    def fsync(handle: int) -> None:
        before = "before" if new.exists() and (out / "complete").read_text() == "old" else "after"
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append(f"{before} {path.relative_to(tmp_path)}")

    monkeypatch.setattr(os, "fsync", fsync)
    replace_folder(new, out)
    assert sorted(synced[:-1]) == [
        "before new",
        "before new/complete",
        "before new/parts",
        "before new/parts/0",
    ]
    assert synced[-1] == "after ."


def test_an_interrupted_replacement_is_undone(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    out.rename(tmp_path / "out.old")
    finish_replacement(out, is_complete)
    assert (out / "complete").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_what_a_finished_replacement_left_is_removed(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "new")
    folder(tmp_path / "out.old", "old")
    finish_replacement(out, is_complete)
    assert (out / "complete").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_a_folder_of_the_users_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "out.old").mkdir()
    finish_replacement(out, is_complete)
    folder(out, "new")
    with pytest.raises(InputError, match=r"out\.old is in the way of replacing .*out: move or rem"):
        finish_replacement(out, is_complete)
    assert names(tmp_path) == ["out", "out.old"]

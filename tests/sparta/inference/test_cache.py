from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import sparta.inference.cache
from sparta.inference.cache import add_entry, cache_folder, find_entry

KEY = {"network": "some", "side": 8}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path))
    return tmp_path


def make(folder: Path, text: str = "content") -> Mapping[str, Any]:
    (folder / "network.xml").write_text(text)
    (folder / "network.bin").write_bytes(bytes(100))
    return {"grid": [2, 2]}


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path
    monkeypatch.delenv("VISUALSPARTA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/visualsparta")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/visualsparta")


def test_an_entry_is_found_again_by_its_key(tmp_path: Path) -> None:
    assert find_entry(KEY) is None
    added = add_entry(KEY, make)
    assert added == find_entry(KEY)
    assert added[1] == {"grid": [2, 2]}
    assert (added[0] / "network.xml").read_text() == "content"
    assert [path.name for path in (tmp_path / "networks").iterdir()] == [added[0].name]
    assert find_entry({**KEY, "side": 9}) is None


def test_another_runtime_makes_other_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    add_entry(KEY, make)
    monkeypatch.setattr(sparta.inference.cache, "version", lambda name: "another")
    assert find_entry(KEY) is None


@pytest.mark.parametrize("file", ["network.bin", "description.json", "sha256.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_a_damaged_entry_is_made_again(file: str, damage: str) -> None:
    path = add_entry(KEY, make)[0] / file
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-1] + (b"" if damage == "cut" else b"?"))
    assert find_entry(KEY) is None
    assert add_entry(KEY, make) == find_entry(KEY)
    assert path.read_bytes() == content


def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> Mapping[str, Any]:
        make(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_entry(KEY, interrupted)
    assert find_entry(KEY) is None
    assert not list((tmp_path / "networks").iterdir())


def test_of_two_processes_the_faster_one_wins(tmp_path: Path) -> None:
    def slower(folder: Path) -> Mapping[str, Any]:
        add_entry(KEY, make)
        return make(folder, "the same, later")

    found, _ = add_entry(KEY, slower)
    assert (found / "network.xml").read_text() == "content"
    assert len(list((tmp_path / "networks").iterdir())) == 1

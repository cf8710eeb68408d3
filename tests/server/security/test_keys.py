"""Keys: what is stored of them, and the file."""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server.security.keys import ALLOWS, default_file, id_of, new_key, read_keys, write_keys
from sparta.errors import InputError


def test_a_key_is_random_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    key, text = new_key("phone", "search")
    other, other_text = new_key("phone", "search")
    assert re.fullmatch(rf"sparta_{key.id}_[\w-]{{43}}", text)
    assert key.id != other.id and text[-43:] != other_text[-43:]
    write_keys(tmp_path / "keys.json", [key])
    assert text[-43:] not in (tmp_path / "keys.json").read_text()
    assert read_keys(tmp_path / "keys.json") == [key]


def test_a_key_matches_its_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    key, text = new_key("phone", "search")
    compared: list[tuple[str, str]] = []

    def compare(first: str, second: str) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert key.matches(text)
    assert not any(map(key.matches, ["", text[:-1], text + "x", key.sha256, "\udc80\ud800"]))
    assert len(compared) == 6  # every comparison takes constant time


def test_ids_of_texts() -> None:
    key, text = new_key("phone", "search")
    assert id_of(text) == key.id
    assert {id_of(other) for other in ["", "sparta", "sparta_x", f"x_{key.id}_y"]} == {""}


def test_expiry() -> None:
    now = datetime.now(UTC)
    assert not new_key("a", "search")[0].is_expired()
    assert not new_key("a", "search", now + timedelta(minutes=1))[0].is_expired()
    assert new_key("a", "search", now)[0].is_expired()


def test_what_scopes_allow() -> None:
    assert ALLOWS["admin"] > ALLOWS["write"] > ALLOWS["search"] == {"search"}
    assert "metrics" not in ALLOWS["write"] and ALLOWS["metrics"] == {"metrics"}


def test_only_the_owner_reads_a_new_file_and_permissions_are_preserved(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    write_keys(file, [])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    write_keys(file, [new_key("a", "search")[0]])
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_file_that_cannot_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError("the disk is full")

    file = tmp_path / "keys.json"
    write_keys(file, [])
    before = file.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        write_keys(file, [new_key("a", "search")[0]])
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hunter2", "is not a file of keys: Invalid JSON"),
        ('{"format_version": 2, "keys": []}', "is not a file of keys: format_version: "),
        ('{"keys": [{"id": "hunter2"}]}', "is not a file of keys: keys.0.id: "),
        ('{"passwords": "hunter2"}', "is not a file of keys: passwords: "),
    ],
)
def test_a_file_of_something_else_is_named_and_not_shown(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_keys(file)
    assert str(caught.value).startswith(f"{file} {problem}")
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_key_of_an_unknown_scope_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    write_keys(file, [new_key("a", "search")[0]])
    content = json.loads(file.read_text())
    content["keys"][0]["scope"] = "everything"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"keys\.0\.scope"):
        read_keys(file)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_keys(tmp_path / "keys.json")
    with pytest.raises(InputError, match="the keys cannot be read: Is a directory"):
        read_keys(tmp_path)


def test_the_default_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARTA_KEYS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_file() == tmp_path / "visualsparta" / "keys.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_file() == Path("/home/someone/.config/visualsparta/keys.json")
    monkeypatch.setenv("SPARTA_KEYS", "/srv/keys.json")
    assert default_file() == Path("/srv/keys.json")

"""Keys: what is stored of them, their file, those of a running server, and `sparta keys`."""

from __future__ import annotations

import hmac
import logging
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from server.security.keys import (
    BadKeyError,
    Key,
    KeyRing,
    default_file,
    new_key,
    read_keys,
    write_keys,
)
from sparta.command_line import cli
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


def find(ring: KeyRing, text: str) -> Key | None:
    try:
        return ring.valid(text)
    except BadKeyError:
        return None


def test_keys_count_from_the_moment_their_file_changes(file: Path) -> None:
    ring = KeyRing(file)
    (first, first_text), (second, second_text) = new_key("a", "search"), new_key("b", "admin")
    assert not ring.in_use and find(ring, first_text) is None
    write_keys(file, [first])
    assert ring.in_use and find(ring, first_text) == first and find(ring, second_text) is None
    write_keys(file, [first, second])
    assert list(ring) == [first, second]
    write_keys(file, [second])
    assert find(ring, first_text) is None and find(ring, second_text) == second
    write_keys(file, [])
    assert ring.in_use and find(ring, second_text) is None
    file.unlink()
    assert not ring.in_use


def test_without_a_readable_file_no_key_is_accepted(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring = KeyRing(file)
    key, text = new_key("a", "search")
    write_keys(file, [key])
    assert find(ring, text)
    file.write_text("damaged")
    with caplog.at_level(logging.ERROR):
        assert find(ring, text) is None and find(ring, text) is None and ring.in_use
    assert len(caplog.records) == 1 and "no key is accepted" in caplog.text
    write_keys(file, [key])
    assert find(ring, text) == key


# ---- `sparta keys` -------------------------------------------------------------------------------


@pytest.fixture
def absent(tmp_path: Path) -> Path:
    return tmp_path / "new" / "keys.json"


def run(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["keys", *arguments], env={"SPARTA_KEYS": str(file), "COLUMNS": "200"}
    )


def test_created_listed_and_revoked(absent: Path) -> None:
    assert "No keys in" in run(absent, "list").stdout
    created = run(absent, "create", "Anna's phone")
    [phone] = read_keys(absent)
    assert re.fullmatch(rf"sparta_{phone.id}_\S{{43}}\n", created.stdout)
    assert phone.matches(created.stdout.strip())
    about = f"Key {phone.id} in {absent}: search, never expires. It is shown this once:\n"
    assert created.stderr == about
    assert run(absent, "create", "script", "--scope", "write", "--expires", "90d").exit_code == 0
    script = read_keys(absent)[1]
    assert script.scope == "write"
    listed = run(absent, "list").stdout
    assert re.search(rf"{phone.id} +Anna's phone +search +[\d-]+ [\d:]+ UTC +never", listed)
    assert re.search(rf"{script.id} +script +write .*{script.expires:%Y-%m-%d %H:%M} UTC", listed)
    assert created.stdout.strip() not in listed and phone.sha256 not in listed
    assert run(absent, "revoke", phone.id).stdout == f"Key {phone.id} is revoked\n"
    assert read_keys(absent) == [script]
    assert "has no key" in str(run(absent, "revoke", phone.id).exception)


def test_an_expired_key_is_marked(absent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(absent, "create", "a", "--expires", "1h")
    monkeypatch.setattr("server.security.keys.Key.is_expired", lambda _: True)
    assert "UTC (expired)" in run(absent, "list").stdout


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("36h", timedelta(hours=36)),
        ("90d", timedelta(days=90)),
        ("2999-01-31", datetime(2999, 1, 31, tzinfo=UTC)),
        ("2999-01-31T12:00+02:00", datetime(2999, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_ends(absent: Path, text: str, end: timedelta | datetime) -> None:
    run(absent, "create", "a", "--expires", text)
    [key] = read_keys(absent)
    assert key.expires == (key.created + end if isinstance(end, timedelta) else end)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["a", "--scope", "all"], "--scope 'all': expected search, write, admin, metrics"),
        (["a", "--expires", "soon"], "--expires 'soon': expected days (90d)"),
        (["a", "--expires", "999999999999d"], "expected days (90d)"),
        (["a", "--expires", "2020-01-01"], "not in the future"),
        (["a", "--expires", "0d"], "not in the future"),
        ([" "], "NAME must be 1 to 100 printable characters"),
        (["a\nb"], "NAME must be"),
        (["a" * 101], "NAME must be"),
    ],
)
def test_what_cannot_be_created(absent: Path, arguments: list[str], problem: str) -> None:
    found = run(absent, "create", *arguments)
    assert problem in str(found.exception)
    assert not absent.exists()

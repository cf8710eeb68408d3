"""`sparta keys`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from server.security.keys import read_keys
from sparta.command_line import cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "keys.json"


def run(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["keys", *arguments], env={"SPARTA_KEYS": str(file), "COLUMNS": "200"}
    )


def test_created_listed_and_revoked(file: Path) -> None:
    assert "No keys in" in run(file, "list").stdout
    created = run(file, "create", "Anna's phone")
    [phone] = read_keys(file)
    assert re.fullmatch(rf"sparta_{phone.id}_\S{{43}}\n", created.stdout)
    assert phone.matches(created.stdout.strip())
    about = f"Key {phone.id} in {file}: search, never expires. It is shown this once:\n"
    assert created.stderr == about
    assert run(file, "create", "script", "--scope", "write", "--expires", "90d").exit_code == 0
    script = read_keys(file)[1]
    assert script.scope == "write"
    listed = run(file, "list").stdout
    assert re.search(rf"{phone.id} +Anna's phone +search +[\d-]+ [\d:]+ UTC +never", listed)
    assert re.search(rf"{script.id} +script +write .*{script.expires:%Y-%m-%d %H:%M} UTC", listed)
    assert created.stdout.strip() not in listed and phone.sha256 not in listed
    assert run(file, "revoke", phone.id).stdout == f"Key {phone.id} is revoked\n"
    assert read_keys(file) == [script]
    assert "has no key" in str(run(file, "revoke", phone.id).exception)


def test_an_expired_key_is_marked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(file, "create", "a", "--expires", "1h")
    monkeypatch.setattr("server.security.keys.Key.is_expired", lambda _: True)
    assert "UTC (expired)" in run(file, "list").stdout


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("36h", timedelta(hours=36)),
        ("90d", timedelta(days=90)),
        ("2999-01-31", datetime(2999, 1, 31, tzinfo=UTC)),
        ("2999-01-31T12:00+02:00", datetime(2999, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_ends(file: Path, text: str, end: timedelta | datetime) -> None:
    run(file, "create", "a", "--expires", text)
    [key] = read_keys(file)
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
def test_what_cannot_be_created(file: Path, arguments: list[str], problem: str) -> None:
    found = run(file, "create", *arguments)
    assert problem in str(found.exception)
    assert not file.exists()

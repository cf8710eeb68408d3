"""The commands `sparta keys create`, `list` and `revoke`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.errors import InputError

if TYPE_CHECKING:
    from datetime import datetime

    from server.security.keys import Key

File = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        envvar="SPARTA_KEYS",
        help="File of the keys; by default visualsparta/keys.json in ~/.config",
        dir_okay=False,
    ),
]


def create(
    name: Annotated[str, typer.Argument(help="Who or what uses the key, as shown in lists")],
    scope: Annotated[
        str,
        typer.Option(
            help="What it allows: search; write (and search); admin (everything); or metrics "
            "alone, for a monitoring system"
        ),
    ] = "search",
    expires: Annotated[
        str | None,
        typer.Option(help="When it ends: 90d, 12h, or a date such as 2027-01-31; default: never"),
    ] = None,
    keys: File = None,
) -> None:
    """Create an API key and print it, once: its hash alone is stored.

    A server that uses the file knows the key from the next request on.

    Example: sparta keys create phone

    Example: sparta keys create backup-script --scope write --expires 90d
    """
    from server.security.keys import SCOPES, new_key, write_keys
    from sparta.files import writing

    if scope not in SCOPES:
        raise InputError(f"--scope {scope!r}: expected {', '.join(SCOPES)}")
    if not name.strip() or not name.isprintable() or len(name) > 100:
        raise InputError("NAME must be 1 to 100 printable characters")
    end = _parse_end(expires) if expires else None
    file = _file(keys)
    with writing(file, wait=True):
        stored = _read(file)
        key, text = new_key(name, scope, end)
        write_keys(file, [*stored, key])
    until = f"expires {_moment(end)}" if end else "never expires"
    typer.echo(f"Key {key.id} in {file}: {scope}, {until}. It is shown this once:", err=True)
    typer.echo(text)


def list_keys(keys: File = None) -> None:
    """List the API keys: id, name, scope, when each was created and ends.

    Example: sparta keys list
    """
    from rich.table import Table

    from sparta.console import Console

    file = _file(keys)
    table = Table("ID", "Name", "Scope", "Created", "Ends", box=None)
    for key in _read(file):
        end = _moment(key.expires) if key.expires else "never"
        ended = " (expired)" if key.is_expired() else ""
        table.add_row(key.id, key.name, key.scope, _moment(key.created), end + ended)
    if table.row_count:
        Console(highlight=False).print(table)
    else:
        typer.echo(f"No keys in {file}")


def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Of the key, as listed")],
    keys: File = None,
) -> None:
    """Revoke an API key: running servers refuse it from the next request on.

    Example: sparta keys revoke 1f0c92ab
    """
    from server.security.keys import write_keys
    from sparta.files import writing

    file = _file(keys)
    with writing(file, wait=True):
        stored = _read(file)
        left = [key for key in stored if key.id != key_id]
        if len(left) == len(stored):
            raise InputError(f"{file} has no key {key_id!r}; see: sparta keys list")
        write_keys(file, left)
    typer.echo(f"Key {key_id} is revoked")


def _file(chosen: Path | None) -> Path:
    from server.security.keys import default_file

    return chosen or default_file()


def _read(file: Path) -> list[Key]:
    from server.security.keys import read_keys

    try:
        return read_keys(file)
    except FileNotFoundError:
        return []


def _parse_end(text: str) -> datetime:
    """The moment that --expires names.

    Raises:
        InputError: if it names none, or one that has passed.
    """
    import re
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC).replace(microsecond=0)
    try:
        if found := re.fullmatch(r"(\d+)([dh])", text):
            unit = timedelta(days=1) if found[2] == "d" else timedelta(hours=1)
            end = now + int(found[1]) * unit
        else:
            end = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise InputError(
            f"--expires {text!r}: expected days (90d), hours (12h) or a date (2027-01-31)"
        ) from None
    end = end.astimezone(UTC) if end.tzinfo else end.replace(tzinfo=UTC)
    if end <= now:
        raise InputError(f"--expires {text}: that is not in the future")
    return end


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"

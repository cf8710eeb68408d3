"""What a command of `sparta eval` says in the end: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.table import Table

from eval.machine import circumstances


class Measured(Protocol):
    """Figures."""

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        ...

    def table(self) -> Table:
        """The figures for a terminal."""
        ...


def report(found: Measured, arguments: Mapping[str, Any], out: Path | None, as_json: bool) -> None:
    """Show what was measured, and write it down with how and on what machine.

    Args:
        found: the figures.
        arguments: of the command.
        out: JSON file, if one is wanted.
        as_json: show JSON instead of a table.
    """
    record = found.record()
    if out is not None:
        whole = {"arguments": dict(arguments), **circumstances(), **record}
        out.write_text(json.dumps(whole, indent=2, default=str) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(record, indent=2))
    else:
        Console().print(found.table())

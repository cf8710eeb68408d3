"""The output of a measurement: a table for the terminal, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from eval.machine import circumstances


class Measured(Protocol):
    """Figures that can be shown and written."""

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        ...

    def table(self) -> Table:
        """The figures as a table."""
        ...


def report(
    found: Measured,
    arguments: Mapping[str, Any],
    out: Path | None,
    as_json: bool,
    *,
    markdown: bool = False,
) -> None:
    """Print the figures, and write them with the arguments, the version and the machine.

    Of a path only its name is written: where it is matters on that machine alone.

    Args:
        found: the figures.
        arguments: of the command.
        out: JSON file, None to write none.
        as_json: print JSON instead of a table.
        markdown: write the table too, as Markdown, beside the JSON file.
    """
    record = found.record()
    if out is not None:
        whole = {"arguments": dict(arguments), **circumstances(), **record}
        out.write_text(json.dumps(whole, indent=2, default=_named) + "\n", encoding="utf-8")
        if markdown:
            table = found.table()
            table.box = MARKDOWN
            with out.with_suffix(".md").open("w", encoding="utf-8") as file:
                Console(file=file, width=300).print(table)
    if as_json:
        typer.echo(json.dumps(record, indent=2))
    else:
        Console().print(found.table())


def _named(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)

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

    Args:
        found: the figures.
        arguments: of the command, see `arguments_of`.
        out: JSON file, None to write none.
        as_json: print JSON instead of a table.
        markdown: write the table too, as Markdown, beside the JSON file.
    """
    record = found.record()
    if out is not None:
        whole = {"arguments": dict(arguments), **circumstances(), **record}
        out.write_text(json.dumps(whole, indent=2, default=str) + "\n", encoding="utf-8")
        if markdown:
            table = found.table()
            table.box = MARKDOWN
            with out.with_suffix(".md").open("w", encoding="utf-8") as file:
                Console(file=file, width=300).print(table)
    if as_json:
        typer.echo(json.dumps(record, indent=2))
    else:
        Console().print(found.table())


def arguments_of(context: typer.Context) -> dict[str, Any]:
    """A command's arguments; of a path only its name: where it is matters on that machine alone."""
    # The values are as typed: Typer converts them for the command's function only.
    paths = {one.name for one in context.command.params if one.type.name == "path"}
    return {
        name: _named(value) if name in paths else value for name, value in context.params.items()
    }


def _named(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_named(one) for one in value]
    return value if value is None else Path(value).name

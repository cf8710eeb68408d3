"""The front door: one `sparta` command whose subcommands live in the rooms that own them."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sparta.errors import InputError

GROUP = "sparta.commands"


class Rooms(TyperGroup):
    """Commands declared by the rooms as entry points; a command's code is loaded when called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order a newcomer needs them: as `pyproject.toml` declares them."""
        return [entry.name for entry in entry_points(group=GROUP)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the one room that owns the command."""
        found = entry_points(group=GROUP, name=cmd_name)
        if not found:
            return None
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        app.command(cmd_name)(next(iter(found)).load())
        return typer.main.get_command(app)


# Typer raises its own exceptions, not click's, so that only a group of Typer's can show them.
cli = typer.Typer(
    cls=Rooms, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sparta {version('visualsparta')}")
        raise typer.Exit


@cli.callback(epilog="Every command explains itself: sparta COMMAND --help")
def sparta(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Text-to-image search on an inverted index, from photos to answers."""


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit status 1."""
    try:
        cli(prog_name="sparta")
    except (InputError, OSError) as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()

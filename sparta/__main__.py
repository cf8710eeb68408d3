"""The front door: one `sparta` command whose subcommands live in the rooms that own them."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import click
import typer

from sparta.errors import InputError

GROUP = "sparta.commands"


class Rooms(click.Group):
    """Commands declared by the rooms as entry points; a command's code is loaded when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order a newcomer needs them: as `pyproject.toml` declares them."""
        return [entry.name for entry in entry_points(group=GROUP)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one room that owns the command."""
        found = entry_points(group=GROUP, name=cmd_name)
        if not found:
            return None
        app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
        app.command(cmd_name)(next(iter(found)).load())
        return typer.main.get_command(app)


@click.group(cls=Rooms, epilog="Every command explains itself: sparta COMMAND --help")
@click.version_option(package_name="visualsparta")
def cli() -> None:
    """Text-to-image search on an inverted index, from photos to answers."""


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit status 1."""
    try:
        cli(prog_name="sparta")
    except (InputError, OSError) as error:
        click.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()

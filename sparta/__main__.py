"""The `sparta` command; its subcommands are entry points that the packages declare."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sparta.errors import InputError
from sparta.extras import missing_extra

ENTRY_POINTS = "sparta.commands"
PACKAGES = ("indexer", "server", "training", "eval")  # imported besides this one; common names
GROUPS = {
    "eval": "Measure models and indexes by the field's protocols.",
    "bench": "Time engines and servers.",
    "figure": "Draw the papers' figures from trained models and runs.",
    "keys": "Create, list and revoke the API keys of a server.",
}


# What a newcomer needs first comes first; the rest follows by name.
ORDER = ("extract", "import", "train", "index", "search", "explain", "serve", "eval")


class Rooms(TyperGroup):
    """Commands declared by the rooms as entry points; a command's code is loaded when called.

    The entry point "eval.recall" is the command `recall` of the group `eval`.

    Attributes:
        prefix: what the entry points of this group's commands begin with.
    """

    prefix = ""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order a newcomer needs them."""
        names = (entry.name for entry in entry_points(group=ENTRY_POINTS))
        own = {name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)}
        known = {name.partition(".")[0] for name in own}
        return [*(name for name in ORDER if name in known), *sorted(known - {*ORDER})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the one room that owns the command; a group imports nothing yet."""
        if not self.prefix and cmd_name in GROUPS:
            return _group(cmd_name)
        found = entry_points(group=ENTRY_POINTS, name=self.prefix + cmd_name)
        if not found:
            return None
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        _check_packages()
        app.command(cmd_name)(next(iter(found)).load())
        return typer.main.get_command(app)


def _check_packages() -> None:
    """Refuse packages of other projects that have the names of ours.

    Raises:
        InputError: naming the file that would be imported instead.
    """
    for name in PACKAGES:
        spec = find_spec(name)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or [])]
        found = next((Path(place) for place in places if place), None)
        if found is None or found.parent.parent != Path(__file__).parents[1]:
            raise InputError(
                f"{found or 'nothing'} is imported as {name!r} instead of VisualSparta's package: "
                "install VisualSparta into an environment of its own (uv tool install, pipx)"
            )


def _group(name: str) -> Any:
    app = typer.Typer(cls=Rooms, name=name, add_completion=False, no_args_is_help=True)
    app.callback(help=GROUPS[name])(lambda: None)
    group = typer.main.get_command(app)
    group.prefix = f"{name}."  # type: ignore[attr-defined]
    return group


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
    except ModuleNotFoundError as error:
        if (problem := missing_extra(error)) is None:
            raise
        _exit(problem)
    except (InputError, OSError) as error:
        _exit(error)


def _exit(error: Exception) -> NoReturn:
    typer.secho(f"error: {error}", fg="red", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()

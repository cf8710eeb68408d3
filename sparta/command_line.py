"""All commands of `sparta`, which are entry points that the packages declare."""

from __future__ import annotations

from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sparta.own_packages import check_packages

ENTRY_POINTS = "sparta.commands"
GROUPS = {
    "eval": "Measure models and indexes by the field's protocols.",
    "bench": "Time engines and servers.",
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
        check_packages()
        app.command(cmd_name)(next(iter(found)).load())
        return typer.main.get_command(app)


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

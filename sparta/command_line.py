"""All commands of `sparta`: their names, and the functions that run them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sparta.errors import InputError

# Name → module and function; "eval index" is the command `index` of the group `eval`. The help
# shows the commands in this order: what a newcomer needs first comes first.
COMMANDS = {
    "extract": "sparta.commands.features:extract",
    "import": "sparta.commands.features:import_",
    "train": "training.commands.train:train",
    "index": "indexer.commands.build:index",
    "search": "indexer.commands.search:search",
    "explain": "eval.commands.explain:explain",
    "serve": "server.commands.serve:serve",
    "eval index": "eval.commands.recall:index",
    "eval cxc": "eval.commands.recall:cxc",
    "eval figure": "eval.commands.explain:figure",
    "eval model": "eval.commands.recall:model",
    "eval pruning": "eval.commands.recall:pruning",
    "eval queries": "eval.commands.recall:queries",
    "eval transfer": "eval.commands.recall:transfer",
    "add": "indexer.commands.keep:add",
    "alias": "indexer.commands.maintain:alias",
    "bench serve": "eval.commands.bench:serve",
    "bench build": "eval.commands.bench:build",
    "bench speed": "eval.commands.bench:speed",
    "captions": "sparta.commands.features:captions",
    "convert": "sparta.commands.models:convert",
    "delete": "indexer.commands.keep:delete",
    "export": "indexer.commands.maintain:export",
    "import-immich": "sparta.commands.features:import_immich",
    "index-dense": "indexer.commands.build:index_dense",
    "info": "indexer.commands.maintain:info",
    "keys create": "server.commands.keys:create",
    "keys list": "server.commands.keys:list_keys",
    "keys revoke": "server.commands.keys:revoke",
    "mcp": "server.commands.mcp:mcp",
    "merge": "indexer.commands.maintain:merge",
    "publish": "server.commands.publish:publish",
    "push": "indexer.commands.build:push",
    "restore": "indexer.commands.maintain:restore",
    "shrink": "sparta.commands.models:shrink",
    "similar": "indexer.commands.search:similar",
    "snapshot": "indexer.commands.maintain:snapshot",
    "substitutes": "sparta.commands.models:substitutes",
    "sync": "indexer.commands.keep:sync",
    "update": "indexer.commands.keep:update",
    "verify": "indexer.commands.maintain:verify",
}
GROUPS = {
    "eval": "Measure models and indexes by the field's protocols.",
    "bench": "Time engines and servers.",
    "keys": "Create, list and revoke the API keys of a server.",
}

PACKAGES = ("indexer", "server", "training", "eval")  # imported besides this one; common names

# Without Rich, which would read square brackets in helps and messages as styles.
PLAIN: Any = {"rich_markup_mode": None, "add_completion": False}


class Command(TyperCommand):
    """A command whose help keeps names of options whole, and examples fit for a shell."""

    def get_help(self, ctx: Any) -> str:
        """The help: lines break at blanks, in examples before options alone."""
        import re
        import textwrap

        def kept(example: re.Match[str]) -> str:
            width = ctx.make_formatter().width - 4  # for the indentation and the sign at the end
            chunks = re.sub(r"\s+(?!-)", "\xa0", example[0])
            lines = textwrap.wrap(chunks, width, subsequent_indent="  ", break_long_words=False)
            # After \b, click leaves the lines of a paragraph as they are.
            return "\b\n" + " \\\n".join(lines).replace("\xa0", " ")

        hyphen = "\ue000"  # which nobody breaks a line at
        parts: list[Any] = [self, *self.params]
        for part in parts:
            if part.help:
                part.help = re.sub(r"(?<=\w)-(?=\w)", hyphen, part.help)
        self.help = re.sub(r"(?<=\n\n)sparta .*(?:\n.+)*", kept, self.help or "")
        return super().get_help(ctx).replace(hyphen, "-")


class Commands(TyperGroup):
    """The commands of a group; a command's module is imported when the command is called.

    Attributes:
        prefix: what the names of this group's commands begin with in `COMMANDS`.
    """

    prefix = ""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of `COMMANDS`."""
        own = (name.removeprefix(self.prefix) for name in COMMANDS if name.startswith(self.prefix))
        return [*dict.fromkeys(name.partition(" ")[0] for name in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of a command; a group imports nothing yet."""
        if not self.prefix and cmd_name in GROUPS:
            return _group(cmd_name)
        # The name may be that of a group's command in quotes.
        if " " in cmd_name or (found := COMMANDS.get(self.prefix + cmd_name)) is None:
            return None
        check_packages()
        module, _, function = found.partition(":")
        app = typer.Typer(**PLAIN)
        app.command(cmd_name, cls=Command)(getattr(import_module(module), function))
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with their first sentences, which click would cut to a line."""
        rows = [
            (name, self.get_command(ctx, name).get_short_help_str(limit=1000))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def check_packages() -> None:
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
    app = typer.Typer(cls=Commands, name=name, no_args_is_help=True, **PLAIN)
    app.callback(help=GROUPS[name])(lambda: None)
    group = typer.main.get_command(app)
    group.prefix = f"{name} "  # type: ignore[attr-defined]
    return group


# Typer raises its own exceptions, not click's, so that only a group of Typer's can show them.
cli = typer.Typer(cls=Commands, pretty_exceptions_enable=False, no_args_is_help=True, **PLAIN)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # which takes as long to load as a query

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

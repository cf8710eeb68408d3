"""All commands of `sparta`: their names, and the functions that run them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sparta.errors import InputError

if TYPE_CHECKING:
    from typer import _click

# Panel → name → module and function, in the order of the help; "eval index" is the command `index`
# of the group `eval`.
PANELS = {
    "Search": {
        "index": "indexer.commands.build:index",
        "search": "indexer.commands.search:search",
        "serve": "server.commands.serve:serve",
        "similar": "indexer.commands.search:similar",
        "explain": "eval.commands.explain:explain",
        "publish": "server.commands.publish:publish",
        "mcp": "server.commands.mcp:mcp",
    },
    "Keep": {
        "add": "indexer.commands.keep:add",
        "update": "indexer.commands.keep:update",
        "delete": "indexer.commands.keep:delete",
        "sync": "indexer.commands.keep:sync",
        "info": "indexer.commands.maintain:info",
        "verify": "indexer.commands.maintain:verify",
        "snapshot": "indexer.commands.maintain:snapshot",
        "restore": "indexer.commands.maintain:restore",
        "merge": "indexer.commands.maintain:merge",
        "export": "indexer.commands.maintain:export",
        "keys create": "server.commands.keys:create",
        "keys list": "server.commands.keys:list_keys",
        "keys revoke": "server.commands.keys:revoke",
    },
    "Models": {
        "adapt": "eval.commands.adapt:adapt",
        "train": "training.commands.train:train",
        "extract": "sparta.commands.features:extract",
        "import": "sparta.commands.features:import_",
        "convert": "sparta.commands.models:convert",
        "captions": "sparta.commands.features:captions",
    },
    "Measure": {
        "eval index": "eval.commands.recall:index",
        "eval model": "eval.commands.recall:model",
        "eval pruning": "eval.commands.recall:pruning",
        "eval table": "eval.commands.recall:table",
        "eval figure": "eval.commands.explain:figure",
        "bench speed": "eval.commands.bench:speed",
    },
}
COMMANDS = {name: place for panel in PANELS.values() for name, place in panel.items()}
GROUPS = {
    "eval": "Measure models and indexes by the field's protocols.",
    "bench": "Time engines.",
    "keys": "Create, list and revoke the API keys of a server.",
}

PACKAGES = ("indexer", "server", "training", "eval")  # imported besides this one; common names
WIDTH = 100  # columns of a help at most
HYPHEN = "\ue000"  # in place of one within a word, where no line breaks

# Without Rich, which would read square brackets in helps and messages as styles.
PLAIN: Any = {"rich_markup_mode": None, "add_completion": False}
CONTEXT = {"max_content_width": WIDTH}


class Command(TyperCommand):
    """A command whose help lists advanced options apart, and examples last, fit for a shell."""

    def format_help(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        """Usage, description, options, examples."""
        import re
        import textwrap

        text, *examples = re.split(r"\n\nFor example:\n\n|\n\nExample: ", self.help or "")
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)
        self.format_options(ctx, formatter)
        with formatter.section("Examples"):
            for example in "\n\n".join(examples).split("\n\n"):
                # Lines break before options alone.
                chunks = re.sub(r"\s+(?!-)", "\xa0", example)
                lines = textwrap.wrap(
                    chunks, formatter.width - 4, subsequent_indent="    ", break_long_words=False
                )
                formatter.write("  " + " \\\n".join(lines).replace("\xa0", " ") + "\n")

    def format_options(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        """Arguments and options, each panel of its own."""
        import re

        panels: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                argument = "Arguments" if one.param_type_name == "argument" else "Options"
                panel = getattr(one, "rich_help_panel", None) or argument
                name, text = record
                kept = re.sub(r"(?<=\w)-(?=\w)", HYPHEN, text)
                panels.setdefault(panel, []).append((name, kept))
        for panel in sorted(panels, key=("Arguments", "Options").__contains__, reverse=True):
            with formatter.section(panel):
                formatter.write_dl(panels[panel])

    def get_help(self, ctx: _click.Context) -> str:
        """The whole help."""
        return super().get_help(ctx).replace(HYPHEN, "-")


class Commands(TyperGroup):
    """The commands of a group; a command's module is imported when the command is called.

    Attributes:
        prefix: what the names of this group's commands begin with in `COMMANDS`.
    """

    prefix = ""

    def list_commands(self, ctx: _click.Context) -> list[str]:
        """Names in the order of `COMMANDS`."""
        return self._names(COMMANDS)

    def _names(self, commands: Iterable[str]) -> list[str]:
        """Names of this group's commands and groups among some commands."""
        own = (name.removeprefix(self.prefix) for name in commands if name.startswith(self.prefix))
        return [*dict.fromkeys(name.partition(" ")[0] for name in own)]

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.Command | None:
        """Import the module of a command; a group imports nothing yet."""
        if not self.prefix and cmd_name in GROUPS:
            return _group(cmd_name)
        # The name may be that of a group's command in quotes.
        if " " in cmd_name or (found := COMMANDS.get(self.prefix + cmd_name)) is None:
            return None
        check_packages()
        module, _, function = found.partition(":")
        app = typer.Typer(**PLAIN)
        app.command(cmd_name, cls=Command, context_settings=CONTEXT)(
            getattr(import_module(module), function)
        )
        return typer.main.get_command(app)

    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        """As typer's, with the command that was probably meant."""
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            known = {one.split()[-1]: one for one in COMMANDS} | {one: one for one in GROUPS}
            known |= {one: self.prefix + one for one in self.list_commands(ctx)}
            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean 'sparta {known[near[0]]}'?" if near else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        """List the commands by panel, with their first sentences."""
        for panel, commands in PANELS.items():
            own = [
                name.removeprefix(self.prefix) for name in commands if name.startswith(self.prefix)
            ]
            names = dict.fromkeys(name.partition(" ")[0] for name in own)
            rows = [(name, GROUPS.get(name) or _summary(self.prefix + name)) for name in names]
            if rows:
                with formatter.section("Commands" if self.prefix else panel):
                    formatter.write_dl(rows)


def _summary(command: str) -> str:
    """The first sentence of a command's help, from the source: imports take half a second."""
    check_packages()
    name, _, function = COMMANDS[command].partition(":")
    source = (Path(__file__).parents[1] / f"{name.replace('.', '/')}.py").read_text("utf-8")
    parts = ast.parse(source).body
    found = next(one for one in parts if isinstance(one, ast.FunctionDef) and one.name == function)
    return " ".join((ast.get_docstring(found) or "").split()).partition(". ")[0].rstrip(".") + "."


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


def _group(name: str) -> Commands:
    app = typer.Typer(cls=Commands, name=name, no_args_is_help=True, **PLAIN)
    app.callback(help=GROUPS[name])(lambda: None)
    group = typer.main.get_command(app)
    assert isinstance(group, Commands)  # by `cls`
    group.prefix = f"{name} "
    return group


# Typer raises its own exceptions, not click's, so that only a group of Typer's can show them.
cli = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings=CONTEXT,
    **PLAIN,
)


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

"""`sparta alias`."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.options import IndexFolder

Alias = Annotated[Path, typer.Argument(help="The name: a path where nothing is, or an alias.")]


def alias(alias: Alias, index: IndexFolder) -> None:
    """Let a name stand for an index, or for another one from now on.

    All commands take the name in place of the index. A server of it changes over within a second:
    requests in flight finish on the former index, and none fails. The name is a symbolic link; the
    former index stays where it is.

    For example:

    sparta alias prod index-7 && sparta serve prod

    sparta alias prod index-8
    """
    from indexer.care.aliases import set_alias

    former = set_alias(alias, index)
    before = f" (before: {former})" if former else ""
    typer.echo(f"{alias} stands for {index.resolve()}{before}", nl=True)

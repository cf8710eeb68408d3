"""The `sparta` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from sparta.errors import InputError
from sparta.extras import missing_extra
from sparta.own_packages import check_packages
from sparta.plain_arguments import PlainCommand, plain_arguments

# Commands that somebody waits for; each module has a `PlainCommand` as COMMAND.
AT_ONCE = {"search": "indexer.commands.searching"}


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit status 1."""
    try:
        if not _run_at_once(sys.argv[1:]):
            from sparta.command_line import cli

            cli(prog_name="sparta")
    except ModuleNotFoundError as error:
        if (problem := missing_extra(error)) is None:
            raise
        _exit(problem)
    except (InputError, OSError) as error:
        _exit(error)


def _run_at_once(arguments: Sequence[str]) -> bool:
    """Run a command with plain arguments; ends as Typer does, False if Typer has to run it."""
    # On Windows Typer replaces patterns by the names of files.
    if not arguments or arguments[0] not in AT_ONCE or os.name == "nt":
        return False
    check_packages()
    command: PlainCommand = import_module(AT_ONCE[arguments[0]]).COMMAND
    found = plain_arguments(command, arguments[1:])
    if found is None:
        return False
    try:
        command.run(**found)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # nobody reads the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(0)


def _exit(error: Exception) -> NoReturn:
    import typer

    typer.secho(f"error: {error}", fg="red", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()

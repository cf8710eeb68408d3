"""The `sparta` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn

from sparta.errors import InputError
from sparta.extras import missing_extra
from sparta.terminal import guard_output, readable


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit status 1."""
    # Before it exits, Python would search everything that is loaded for garbage.
    atexit.register(gc.freeze)
    guard_output()
    # A user of a container may have neither HOME nor an entry in passwd, which libraries ask for.
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - a path's raises an error
        os.environ["HOME"] = "/"
    try:
        from sparta.command_line import cli

        cli(prog_name="sparta")
    except ModuleNotFoundError as error:
        if (problem := missing_extra(error)) is None:
            raise
        _exit(problem)
    except (InputError, OSError) as error:
        _exit(error)


def _exit(error: Exception) -> NoReturn:
    import typer

    from sparta.files import FULL, is_full

    text = str(error)
    if isinstance(error, OSError) and (error.strerror or is_full(error)):  # without its number
        said = FULL if is_full(error) else error.strerror
        text = f"{error.filename or ''}: {said}".removeprefix(": ")
    typer.secho(f"error: {readable(text)}", fg="red", file=getattr(sys.stderr, "unguarded", None))
    sys.exit(1)


if __name__ == "__main__":
    main()

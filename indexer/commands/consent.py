"""Asks before a command does what cannot be undone."""

from __future__ import annotations

import typer

from sparta.errors import InputError


def ask(question: str, yes: bool) -> None:
    """Go on after a yes only.

    Args:
        question: with what will happen, ending in a question mark.
        yes: the option `--yes`, which answers it.

    Raises:
        InputError: if the answer is no, or there is nobody to ask.
    """
    try:
        agreed = yes or typer.confirm(question, err=True)
    except typer.Abort:  # standard input is at its end: a script, or Ctrl+C
        typer.echo(err=True)
        agreed = False
    if not agreed:
        raise InputError("nothing was changed; --yes does it without asking")

"""Reads the arguments of a command where they are plain, without Typer, which reads all others.

Loading Typer and what it declares takes as long as a search does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class PlainOption(NamedTuple):
    """An option of a command.

    Attributes:
        parameter: of the command's function.
        value: makes one of the argument behind the option, or raises a ValueError; for a flag,
            the value itself.
    """

    parameter: str
    value: Callable[[str], Any] | bool


class PlainCommand(NamedTuple):
    """A command whose plain arguments are read without Typer.

    Attributes:
        run: does the work; its parameters are the names below, its defaults are Typer's.
        arguments: parameter → makes a value; the first one must be given.
        options: by their names on the command line.
    """

    run: Callable[..., None]
    arguments: Mapping[str, Callable[[str], Any]]
    options: Mapping[str, PlainOption]


def plain_arguments(command: PlainCommand, given: Sequence[str]) -> dict[str, Any] | None:
    """Values by parameter; None if Typer has to read the arguments, or to say what is wrong.

    Plain are an option and its value one after another, and texts that are neither empty nor begin
    with a dash.

    Args:
        command: to be run.
        given: what is behind its name.
    """
    found: dict[str, Any] = {}
    free = iter(command.arguments.items())
    rest = iter(given)
    try:
        for text in rest:
            if (option := command.options.get(text)) is None:
                parameter, read = next(free)
                found[parameter] = read(_plain(text))
            elif isinstance(option.value, bool):
                found[option.parameter] = option.value
            else:
                found[option.parameter] = option.value(_plain(next(rest)))
    except (ValueError, StopIteration):
        return None
    return found if next(iter(command.arguments)) in found else None


def positive(text: str) -> int:
    """A whole number from 1 on.

    Raises:
        ValueError: if the text is none, or is written in another way than in digits.
    """
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(text)
    return int(text)


def _plain(text: str) -> str:
    if not text or text.startswith("-"):
        raise ValueError(text)
    return text

"""Options that several commands of `sparta figure` share."""

import typer

from sparta.errors import InputError

OUT = typer.Option(help="The picture, a .png; its numbers go beside it, as .json.")
MODEL = typer.Argument(help="A dense model's folder or hub name.")
FEATURES = typer.Option(help="Feature store.")


def parse_numbers(text: str, option: str) -> list[int]:
    """Rising numbers from a list with commas, each once.

    Raises:
        InputError: if one is not a positive number.
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isdecimal() and int(part)):
            raise InputError(f"{option}: {part!r} is not a number from 1")
    return sorted({int(part) for part in parts})

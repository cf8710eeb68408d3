"""The one error the command line shows without a traceback."""

from __future__ import annotations


class InputError(ValueError):
    """What the user gave cannot be used; the text names the file, line or field and what to do."""


def first_line(error: Exception) -> str:
    """The first line of an error's text: those of other libraries may have several."""
    return str(error).strip().partition("\n")[0]

"""The console of all commands."""

from __future__ import annotations

import sys
from typing import Any

import rich.console
from rich.text import Text

from sparta.terminal import readable


class Console(rich.console.Console):
    """A console that prints every text as it is, but for what a terminal would obey.

    Rich would read square brackets as styles and words between colons as emoji, and drop or
    replace them: in names of files, in queries and in messages.
    """

    def __init__(self, **options: Any) -> None:
        stream = sys.stderr if options.get("stderr") else sys.stdout
        options.setdefault("file", getattr(stream, "unguarded", stream))  # for styles and bars
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as Rich prints it, `readable`."""
        return super().render_str(readable(text), **options)

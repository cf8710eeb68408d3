"""What commands print, safe for a terminal: texts of others contain escape sequences.

Names of files, image ids and metadata come from anywhere. Some characters in them would colour the
terminal, clear it, or show a name in another order. They are printed as JSON writes them.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO, cast

_CONTROLS = {*range(32), *range(0x7F, 0xA0)} - {*map(ord, "\n\t")}
# Marks of direction, and separators of lines
_MARKS = {0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}
_READABLE = {number: f"\\u{number:04x}" for number in _CONTROLS | _MARKS}


def readable(text: str) -> str:
    """A text whose control characters a terminal shows and does not obey; lines and tabs stay."""
    return text.translate(_READABLE)


class _Guarded:
    """A stream to which only `readable` texts are written; `unguarded` is the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        """Write a text."""
        return self.unguarded.write(readable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard_output() -> None:
    """Print safely from now on; characters that the terminal lacks are printed by their numbers."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Guarded):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, _Guarded(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The stream itself, for styles and progress bars, which are made of such characters."""
    return cast(TextIO, getattr(stream, "unguarded", stream))

"""What commands print: control characters in names, ids and metadata as JSON writes them.

A terminal would obey them: they colour it, clear it, or show a name in another order.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Any, TextIO

# Controls but for line feeds and tabs, marks of direction, separators of lines
_UNSAFE = {*range(32), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F}
_UNSAFE |= {*range(0x2028, 0x202F), *range(0x2066, 0x206A)}
_READABLE = {number: f"\\u{number:04x}" for number in _UNSAFE - {9, 10}}


def readable(text: str) -> str:
    """A text whose control characters a terminal shows and does not obey."""
    return text.translate(_READABLE)


class _Guarded:
    """A stream to which only `readable` texts are written; `unguarded` is the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        return self.unguarded.write(readable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard_output() -> None:
    """Print safely from now on; characters that the terminal lacks are printed by their numbers."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) and not isinstance(stream, _Guarded):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, _Guarded(stream))

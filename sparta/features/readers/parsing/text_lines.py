"""Text files with one entry a line."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

from sparta.errors import InputError


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 text file, ended by line feeds, with or without a carriage return.

    A byte order mark at the start and empty lines at the end, which editors add, are left out.

    Raises:
        InputError: if it cannot be read or is not UTF-8.
    """
    try:
        lines = path.read_bytes().removeprefix(BOM_UTF8).split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    while lines and not lines[-1].strip(b"\r"):
        lines.pop()
    found: list[str] = []
    try:
        for line in lines:
            found.append(line.rstrip(b"\r").decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {len(found) + 1}: not UTF-8: {error}") from error
    return found

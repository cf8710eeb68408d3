"""Text files with one entry a line."""

from __future__ import annotations

from pathlib import Path

from sparta.errors import InputError


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 text file, ended by line feeds alone.

    Raises:
        InputError: if it cannot be read or is not UTF-8.
    """
    try:
        lines = path.read_bytes().split(b"\n")
        return [line.decode() for line in (lines if lines[-1] else lines[:-1])]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from error

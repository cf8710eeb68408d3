"""Widths and heights of photos in a `.hw.tsv`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter

from sparta.errors import InputError
from sparta.features.readers.parsing.detected_objects import Pixels, parse
from sparta.features.readers.parsing.tsv.lines import TsvFile


class _Size(BaseModel):
    width: Pixels
    height: Pixels


ONE = TypeAdapter(_Size)
LIST = TypeAdapter(Annotated[list[_Size], Field(min_length=1)])
NUMBERS = TypeAdapter(tuple[Pixels, Pixels])


class SizeTable:
    """Sizes of photos by key.

    A line holds a key and JSON, `[{"width": w, "height": h}]` or the object alone, or else the
    height and the width separated by a blank.

    Args:
        path: of the TSV.

    Attributes:
        path: of the TSV.

    Raises:
        InputError: if the file is missing or empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = TsvFile(path)

    def __contains__(self, key: str) -> bool:
        return key in self._file.first

    def size(self, key: str) -> tuple[int, int]:
        """Width and height in pixels.

        Raises:
            InputError: naming file and line, if the photo is missing or its line is malformed.
        """
        line = self._file.first.get(key)
        if line is None:
            raise InputError(f"{self.path}: size: missing for image {key!r}")
        where = self._file.where(line)
        _, text = self._file.cells(line, ("image key", "size"))
        if text.startswith(b"{"):
            found = parse(ONE, text, where)
        elif text.startswith(b"["):
            found = parse(LIST, text, where)[0]
        else:
            height, width = parse(NUMBERS, b"[" + b",".join(text.split()) + b"]", where)
            return width, height
        return found.width, found.height

"""Captions in the tables of Kaggle's Flickr8k and Flickr30k: `captions.txt`, `results.csv`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from sparta.captions.caption_lines import CaptionLine, by_photo
from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.readers.base import read_lines

IMAGE = {"image", "image_name"}
NUMBER = {"comment_number", "caption_number"}
CAPTION = {"caption", "comment"}
LAYOUTS = ([IMAGE, CAPTION], [IMAGE, NUMBER, CAPTION])
# A line of the published results.csv lacks the separator behind the number.
JOINED = re.compile(r"(\d+)\s+(.+)")


def fits(line: str) -> bool:
    """Whether a file's first line names such columns, with commas or pipes between them."""
    return _columns(line) is not None


def read_table(path: Path) -> list[CaptionedPhoto]:
    """Photos of a table of image, caption number (in some files) and caption, with all captions.

    Fields are quoted where a program for CSV wrote them; elsewhere the last column has all that
    follows, commas included.

    Raises:
        InputError: if a line has too few columns, or a quotation mark is not closed on it; or a
            photo two captions of one number.
    """
    return by_photo(path, _lines(path))


def _lines(path: Path) -> Iterator[CaptionLine]:
    header, *lines = read_lines(path)
    found = _columns(header)
    if found is None:
        raise InputError(f"{path}, line 1: expected the names of columns, such as image,caption")
    separator, columns = found
    for number, line in enumerate(lines, 2):
        where = f"{path}, line {number}"
        cells = [cell.strip() for cell in _cells(line, separator, columns, where)]
        if len(cells) == columns - 1 and (joined := JOINED.fullmatch(cells[-1])):
            cells[-1:] = joined.groups()
        if len(cells) != columns or (columns == 3 and not cells[1].isdigit()):
            raise InputError(f"{where}: expected {header.strip()}, found {line[:100]!r}")
        yield CaptionLine(where, cells[0], cells[1] if columns == 3 else "", cells[-1])


def _columns(header: str) -> tuple[str, int] | None:
    """The separator of a header's columns and their number, None if it is no such header."""
    for separator in "|,":
        names = [name.strip().lower() for name in header.split(separator)]
        for layout in LAYOUTS:
            if len(names) == len(layout) and all(map(set.__contains__, layout, names)):
                return separator, len(layout)
    return None


def _cells(line: str, separator: str, columns: int, where: str) -> list[str]:
    plain = line.split(separator, columns - 1)
    if separator == "|":  # these files have no quoting
        return plain
    try:
        quoted = next(csv.reader([line], strict=True), [])
    except csv.Error as error:  # a quotation mark within a field that begins with one
        if plain[-1].startswith('"') and plain[-1].count('"') % 2:
            raise InputError(
                f"{where}: caption: its quotation mark is not closed on this line"
            ) from error
        return plain
    return quoted if len(quoted) == columns else plain

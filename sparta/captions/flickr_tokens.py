"""Captions in the token files of Flickr8k and Flickr30k, such as `Flickr8k.token.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sparta.captions.caption_lines import CaptionLine, by_photo
from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.readers.base import read_lines

LINE = re.compile(r"(?P<image>[^\t]+)#(?P<number>\d+)\t(?P<text>.*)", re.DOTALL)


def fits(line: str) -> bool:
    """Whether a file's first line looks like one of these."""
    return LINE.fullmatch(line) is not None


def read_token_file(path: Path) -> list[CaptionedPhoto]:
    """Photos of a file of lines `image.jpg#0`, tab, caption, with all their captions.

    Raises:
        InputError: if a line has another form, or a photo two captions of one number.
    """
    return by_photo(path, _lines(path))


def _lines(path: Path) -> Iterator[CaptionLine]:
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        found = LINE.fullmatch(line)
        if found is None:
            raise InputError(f"{where}: expected image#number, a tab and a caption")
        yield CaptionLine(where, found["image"].strip(), found["number"], found["text"])

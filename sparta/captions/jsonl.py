"""Captions as the project writes them: `captions.jsonl`."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from sparta.captions.json_file import validate
from sparta.captions.record import CaptionedPhoto, checked, each_once
from sparta.errors import InputError


class _Line(BaseModel):
    model_config = ConfigDict(strict=True)
    image: str = Field(min_length=1, validation_alias=AliasChoices("image", "id"))
    split: str = "train"
    captions: list[str] = Field(min_length=1)


def read_lines(path: Path) -> list[CaptionedPhoto]:
    """Read one object a line: image (or id), split ("train" if absent), captions.

    A byte order mark at the start and empty lines at the end are left out.

    Raises:
        InputError: if a line is not such an object, an image appears twice or a caption is blank;
            the text names file, line and field.
    """
    return each_once(_parse_all(path))


def _parse_all(path: Path) -> Iterator[tuple[str, CaptionedPhoto]]:
    lines = path.read_bytes().removeprefix(BOM_UTF8).rstrip(b"\r\n").split(b"\n")
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        yield where, _parse(line, where)


def _parse(line: bytes, where: str) -> CaptionedPhoto:
    try:
        content = json.loads(line.decode())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not a JSON object: {error}") from error
    parsed = validate(_Line, content, where)
    return checked(parsed.image, parsed.split, parsed.captions, where)

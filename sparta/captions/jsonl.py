"""Captions as the project writes them: `captions.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sparta.captions.json_file import validate
from sparta.captions.record import CaptionedPhoto, checked, each_once
from sparta.errors import InputError


class _Line(BaseModel):
    model_config = ConfigDict(strict=True)
    image: str = Field(min_length=1)
    split: str = "train"
    captions: list[str] = Field(min_length=1)


def read_lines(path: Path) -> list[CaptionedPhoto]:
    """Read one object a line: image, split ("train" if absent), captions.

    Raises:
        InputError: if a line is not such an object, an image appears twice or a caption is blank;
            the text names file, line and field.
    """
    return each_once(_parse_all(path))


def _parse_all(path: Path) -> Iterator[tuple[str, CaptionedPhoto]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            yield where, _parse(line, where)


def _parse(line: bytes, where: str) -> CaptionedPhoto:
    try:
        content = json.loads(line.decode())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: not a JSON object: {error}") from error
    parsed = validate(_Line, content, where)
    return checked(parsed.image, parsed.split, parsed.captions, where)

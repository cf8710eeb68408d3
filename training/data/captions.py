"""Readers of captioned photos."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sparta.errors import InputError


@dataclass(frozen=True)
class CaptionedPhoto:
    """A photo's id in the feature store, its split and its captions."""

    image_id: str
    split: str
    captions: tuple[str, ...]


class _Line(BaseModel):
    model_config = ConfigDict(strict=True)
    image: str = Field(min_length=1)
    split: str = "train"
    captions: list[str] = Field(min_length=1)


def read_captions(path: Path, split: str | None = None) -> list[CaptionedPhoto]:
    """Read a `captions.jsonl`, one object a line: image, split ("train" if absent), captions.

    Args:
        path: the file.
        split: keep only photos of this split (None: all).

    Raises:
        InputError: if a line is not such an object, an image appears twice, a caption is blank,
            or no photo has the split; the text names file, line and field.
    """
    photos: dict[str, CaptionedPhoto] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            photo = _parse(line, f"{path}, line {number}")
            if photo.image_id in photos:
                raise InputError(f"{path}, line {number}: image {photo.image_id!r} appears twice")
            photos[photo.image_id] = photo
    kept = [p for p in photos.values() if split in (None, p.split)]
    if not kept:
        splits = sorted({p.split for p in photos.values()})
        raise InputError(f"{path}: no photo has split {split!r}; the file has {splits}")
    return kept


def _parse(line: bytes, where: str) -> CaptionedPhoto:
    try:
        parsed = _Line.model_validate(json.loads(line.decode()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: not a JSON object: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise InputError(f"{where}: {field}: {first['msg']}") from error
    if any(not caption.strip() for caption in parsed.captions):
        raise InputError(f"{where}: captions: one of them is blank")
    return CaptionedPhoto(parsed.image, parsed.split, tuple(parsed.captions))

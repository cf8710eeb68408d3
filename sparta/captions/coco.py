"""Captions in COCO's own JSON: `captions_train2014.json` and its like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sparta.captions.json_file import validate
from sparta.captions.karpathy import ImageKey
from sparta.captions.record import CaptionedPhoto, FirstCaptions, checked, each_once
from sparta.errors import InputError


class _Image(BaseModel):
    model_config = ConfigDict(strict=True)
    id: int
    file_name: str = Field(min_length=1)


class _Annotation(BaseModel):
    model_config = ConfigDict(strict=True)
    id: int
    image_id: int
    caption: str


class _File(BaseModel):
    model_config = ConfigDict(strict=True)
    images: list[_Image] = Field(min_length=1)
    annotations: list[_Annotation]


def read_coco_captions(
    content: object,
    path: Path,
    split: str | None = None,
    *,
    captions_per_photo: int = 5,
    image_key: ImageKey = "file",
) -> list[CaptionedPhoto]:
    """Photos with the first captions of each, all of one split.

    Args:
        content: the parsed file.
        path: the file's path.
        split: split of all its photos; None for the one in the file's name ("val" for
            `captions_val2014.json`), or else "train".
        captions_per_photo: how many captions of a photo are used, in the file's order; a warning
            counts the others.
        image_key: what the image ids are: "file" (`file_name`) or "cocoid" (the image's `id`).

    Raises:
        InputError: if a field is missing or of another type, an id appears twice, a caption's
            image is not in the file, or a photo has too few captions or a blank one; the text
            names file, position and field.
    """
    file = validate(_File, content, str(path))
    named = re.match(r"captions_([a-z]+)\d", path.name)
    split = split or (named[1] if named else "train")
    captions, used = _captions_of(file, path), FirstCaptions(path, captions_per_photo)

    def photos() -> Iterator[tuple[str, CaptionedPhoto]]:
        for number, image in enumerate(file.images):
            where = f"{path}: images.{number} ({image.file_name})"
            first = used.of(captions[image.id], where)
            image_id = image.file_name if image_key == "file" else str(image.id)
            yield where, checked(image_id, split, first, where)

    found = each_once(photos())
    used.warn()
    return found


def _captions_of(file: _File, path: Path) -> dict[int, list[str]]:
    """Captions by image id."""
    captions: dict[int, list[str]] = {}
    for number, image in enumerate(file.images):
        if image.id in captions:
            raise InputError(f"{path}: images.{number}: id: {image.id} appears twice")
        captions[image.id] = []
    seen: set[int] = set()
    for number, annotation in enumerate(file.annotations):
        where = f"{path}: annotations.{number}"
        if annotation.image_id not in captions:
            raise InputError(f"{where}: image_id: no image has id {annotation.image_id}")
        if annotation.id in seen:
            raise InputError(f"{where}: id: {annotation.id} appears twice")
        seen.add(annotation.id)
        captions[annotation.image_id].append(annotation.caption)
    return captions

"""Captions and splits in Karpathy's JSON: `dataset_coco.json`, `dataset_flickr30k.json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sparta.captions.json_file import validate
from sparta.captions.record import CaptionedPhoto, FirstCaptions, checked, each_once
from sparta.errors import InputError

ImageKey = Literal["file", "cocoid"]


class _Sentence(BaseModel):
    model_config = ConfigDict(strict=True)
    raw: str


class _Image(BaseModel):
    model_config = ConfigDict(strict=True)
    filename: str = Field(min_length=1)
    filepath: str = ""
    split: str = Field(min_length=1)
    cocoid: int | None = None
    sentences: list[_Sentence]


class _File(BaseModel):
    model_config = ConfigDict(strict=True)
    images: list[_Image] = Field(min_length=1)


def read_karpathy(
    content: object,
    path: Path,
    *,
    captions_per_photo: int = 5,
    image_key: ImageKey = "file",
    restval_apart: bool = False,
) -> list[CaptionedPhoto]:
    """Photos with the splits of Karpathy and Fei-Fei (2015), as all papers here use them.

    Args:
        content: the parsed file.
        path: the file's path, for messages.
        captions_per_photo: how many captions of a photo are used; some photos of COCO have more
            than five, and a warning counts those left out.
        image_key: what the image ids are: "file" ("val2014/COCO_val2014_….jpg"; Flickr's names
            have no folder) or "cocoid" ("391895").
        restval_apart: keep "restval" as a split of its own; otherwise it joins "train", which
            then has 113,287 photos of COCO.

    Raises:
        InputError: if a field is missing or of another type, a photo has too few captions or a
            blank one, or appears twice; the text names file, position and field.
    """
    file = validate(_File, content, str(path))
    used = FirstCaptions(path, captions_per_photo)

    def photos() -> Iterator[tuple[str, CaptionedPhoto]]:
        for number, image in enumerate(file.images):
            where = f"{path}: images.{number} ({image.filename})"
            raw = [sentence.raw for sentence in image.sentences]
            captions = used.of(raw, where)
            joins = image.split == "restval" and not restval_apart
            split = "train" if joins else image.split
            yield where, checked(_image_id(image, image_key, where), split, captions, where)

    found = each_once(photos())
    used.warn()
    return found


def _image_id(image: _Image, key: ImageKey, where: str) -> str:
    if key == "file":
        return f"{image.filepath}/{image.filename}" if image.filepath else image.filename
    if image.cocoid is None:
        raise InputError(f"{where}: cocoid: missing")
    return str(image.cocoid)

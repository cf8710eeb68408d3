"""Captions in COCO's own JSON: `captions_train2014.json` and its like."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sparta.captions.json_file import validate
from sparta.captions.record import CaptionedPhoto, captioned
from sparta.errors import InputError

log = logging.getLogger(__name__)


class _Image(BaseModel):
    model_config = ConfigDict(strict=True)
    id: int | str
    file_name: str = Field(min_length=1)


class _Annotation(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)
    id: int | str | None = None
    image_id: int | str
    caption: str


class _File(BaseModel):
    model_config = ConfigDict(strict=True)
    images: list[_Image] = Field(min_length=1)
    annotations: list[_Annotation]


def read_coco_captions(content: object, path: Path) -> list[CaptionedPhoto]:
    """Photos with all their captions, all of one split.

    Photos without captions and captions of photos that the file does not list are left out, and
    counted by a warning. An annotation that is there twice, with its id, counts once.

    Args:
        content: the parsed file.
        path: the file's path; its name tells the split ("val" for `captions_val2014.json`, "train"
            where it has none).

    Raises:
        InputError: if a field is missing or of another type, or an image appears twice under
            different names or ids; the text names file, position and field.
    """
    file = validate(_File, content, str(path))
    named = re.match(r"captions_([a-z]+)\d", path.name)
    split = named[1] if named else "train"
    names: dict[int | str, str] = {}
    for number, image in enumerate(file.images):
        if names.setdefault(image.id, image.file_name) != image.file_name:
            raise InputError(f"{path}: images.{number}: id: {image.id} is also {names[image.id]}")
    captions: dict[int | str, list[str]] = {image_id: [] for image_id in names}
    seen: set[_Annotation] = set()
    strangers = 0
    for annotation in file.annotations:
        if annotation.id is not None and annotation in seen:
            continue
        seen.add(annotation)
        if annotation.image_id in captions:
            captions[annotation.image_id].append(annotation.caption)
        else:
            strangers += 1
    if strangers:
        log.warning("%s: %d captions of images that it does not list left out", path, strangers)
    return captioned(
        path,
        (
            (f"{path}: {name}", CaptionedPhoto(name, split, tuple(captions[image_id])))
            for image_id, name in names.items()
        ),
    )

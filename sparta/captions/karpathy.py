"""Captions and splits in Karpathy's JSON: `dataset_coco.json`, `dataset_flickr30k.json`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sparta.captions.json_file import validate
from sparta.captions.record import CaptionedPhoto, captioned


class _Sentence(BaseModel):
    model_config = ConfigDict(strict=True)
    raw: str


class _Image(BaseModel):
    model_config = ConfigDict(strict=True)
    filename: str = Field(min_length=1)
    filepath: str = ""
    split: str = Field(min_length=1)
    sentences: list[_Sentence]


class _File(BaseModel):
    model_config = ConfigDict(strict=True)
    images: list[_Image] = Field(min_length=1)


def read_karpathy(
    content: object, path: Path, *, restval_apart: bool = False
) -> list[CaptionedPhoto]:
    """Photos with all their captions, and the splits of Karpathy and Fei-Fei (2015).

    Args:
        content: the parsed file.
        path: the file's path, for messages.
        restval_apart: keep "restval" as a split of its own; otherwise it joins "train", which
            then has 113,287 photos of COCO.

    Raises:
        InputError: if a field is missing or of another type, or a photo appears twice; the text
            names file, position and field.
    """
    file = validate(_File, content, str(path))
    return captioned(
        path,
        (
            (
                f"{path}: images.{number} ({image.filename})",
                CaptionedPhoto(
                    f"{image.filepath}/{image.filename}" if image.filepath else image.filename,
                    "train" if image.split == "restval" and not restval_apart else image.split,
                    tuple(sentence.raw for sentence in image.sentences),
                ),
            )
            for number, image in enumerate(file.images)
        ),
    )

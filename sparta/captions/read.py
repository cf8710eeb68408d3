"""Captioned photos and videos, in any of the supported formats."""

from __future__ import annotations

from pathlib import Path

from sparta.captions.coco import read_coco_captions
from sparta.captions.hgr import read_hgr
from sparta.captions.json_file import load_json
from sparta.captions.jsonl import read_lines
from sparta.captions.karpathy import ImageKey, read_karpathy
from sparta.captions.precomp import read_precomp
from sparta.captions.record import CaptionedPhoto, of_split
from sparta.errors import InputError
from sparta.features.readers.precomp import splits_of

__all__ = ["CaptionedPhoto", "ImageKey", "read_captions"]


def read_captions(
    path: Path,
    split: str | None = None,
    *,
    captions_per_photo: int = 5,
    image_key: ImageKey = "file",
    restval_apart: bool = False,
) -> list[CaptionedPhoto]:
    """Read captions of a split; the format is recognised by the path and its content.

    | path | format |
    | --- | --- |
    | folder with `*_caps.txt` | `precomp` of VSE++ and SCAN (`read_precomp`) |
    | folder with `public_split` | HGR's videos (`read_hgr`) |
    | `.json` with `images` and `annotations` | COCO's captions (`read_coco_captions`) |
    | other `.json` with `images` | Karpathy's splits (`read_karpathy`) |
    | any other file | `captions.jsonl` (`read_lines`) |

    Args:
        path: file or folder.
        split: keep only photos of this split (None: all).
        captions_per_photo: how many captions of a photo are used from COCO's and Karpathy's JSON;
            lines per photo in `precomp` folders.
        image_key: for COCO's and Karpathy's JSON, what the image ids are: "file" or "cocoid".
        restval_apart: for Karpathy's JSON, keep "restval" apart from "train".

    Raises:
        InputError: if the format is none of these, the content is malformed, or no photo has the
            split; the text names file, line or position, and field.
    """
    if path.is_dir():
        if splits_of(path):
            return read_precomp(path, split, captions_per_photo=captions_per_photo)
        if (path / "public_split").is_dir():
            return read_hgr(path, split)
        raise InputError(f"{path} is a folder with neither *_caps.txt nor public_split in it")
    if path.suffix != ".json":
        return of_split(read_lines(path), split, path)
    content = load_json(path)
    if not isinstance(content, dict) or "images" not in content:
        raise InputError(
            f"{path}: expected images with sentences (Karpathy) or images and annotations (COCO)"
        )
    if "annotations" in content:
        photos = read_coco_captions(
            content, path, captions_per_photo=captions_per_photo, image_key=image_key
        )
    else:
        photos = read_karpathy(
            content,
            path,
            captions_per_photo=captions_per_photo,
            image_key=image_key,
            restval_apart=restval_apart,
        )
    return of_split(photos, split, path)

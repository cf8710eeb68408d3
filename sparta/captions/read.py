"""Captioned photos and videos, in any of the supported formats."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path

from sparta.captions.formats import (
    fits_table,
    fits_tokens,
    read_coco_captions,
    read_hgr,
    read_karpathy,
    read_objects,
    read_precomp,
    read_table,
    read_token_file,
)
from sparta.captions.record import CaptionedPhoto, load_json
from sparta.errors import InputError
from sparta.features.readers.precomp import splits_of

__all__ = ["CaptionedPhoto", "read_captions"]

FORMATS = (
    "captions.jsonl (an object a line: image, captions and, if there is one, split)",
    "COCO's captions_*.json",
    "Karpathy's dataset_*.json",
    "token files of Flickr8k and Flickr30k (image#number, tab, caption)",
    "captions.txt and results.csv of Kaggle (first line image,caption or "
    "image_name| comment_number| comment)",
    "precomp folders with *_caps.txt",
    "HGR's folders with public_split",
)
RESTVAL = "restval"
FIRST_BYTES = 1 << 12  # of a file, which contain its first line


def read_captions(path: Path, split: str | Sequence[str] | None = None) -> list[CaptionedPhoto]:
    """Read all captions of a split; the format is recognised by the path and its content.

    Blanks and invisible characters around a caption are removed. Photos without captions and
    captions that show nothing are left out, and counted by a warning.

    | path | format |
    | --- | --- |
    | folder with `*_caps.txt` | `precomp` of VSE++ and SCAN (`read_precomp`) |
    | folder with `public_split` | HGR's videos (`read_hgr`) |
    | `.json` with `images` and `annotations` | COCO's captions (`read_coco_captions`) |
    | other `.json` with `images` | Karpathy's splits (`read_karpathy`) |
    | `.jsonl`, or a first line that begins with `{` | `captions.jsonl` (`read_objects`) |
    | first line of image, `#`, number, tab | token file of Flickr (`read_token_file`) |
    | first line of names of columns | Kaggle's tables (`read_table`) |

    Args:
        path: file or folder.
        split: keep only photos of this split, or of these (None: all). Karpathy's "restval" is
            part of "train", unless it is named here.

    Raises:
        InputError: if the format is none of these, the content is malformed, or no photo has the
            split or any captions; the text names file, line or position, and field.
    """
    splits = [split] if split is None or isinstance(split, str) else list(split)
    if path.is_dir():
        found = [photo for one in splits for photo in _of_folder(path, one)]
    else:
        photos = _of_file(path, RESTVAL in splits)
        known = sorted({photo.split for photo in photos})
        for one in splits:
            if photos and one not in (None, *known):
                raise InputError(f"{path}: no photo has split {one!r}; the file has {known}")
        found = [photo for one in splits for photo in photos if one in (None, photo.split)]
    if not found:
        raise InputError(f"{path} has no captions")
    return found


def _of_folder(path: Path, split: str | None) -> list[CaptionedPhoto]:
    if splits_of(path):
        return read_precomp(path, split)
    if (path / "public_split").is_dir():
        return read_hgr(path, split)
    raise _unknown(f"{path} is a folder with neither *_caps.txt nor public_split in it")


def _of_file(path: Path, restval_apart: bool) -> list[CaptionedPhoto]:
    if path.suffix != ".json":
        return _of_text(path)
    content = load_json(path)
    if not isinstance(content, dict) or "images" not in content:
        raise _unknown(
            f"{path}: expected images with sentences (Karpathy) or images and annotations (COCO)"
        )
    if "annotations" in content:
        return read_coco_captions(content, path)
    return read_karpathy(content, path, restval_apart=restval_apart)


def _of_text(path: Path) -> list[CaptionedPhoto]:
    with path.open("rb") as file:
        start = file.read(FIRST_BYTES).removeprefix(BOM_UTF8).partition(b"\n")[0]
    line = start.decode(errors="replace").rstrip("\r")
    if path.suffix == ".jsonl" or line.lstrip().startswith("{"):
        return read_objects(path)
    if fits_tokens(line):
        return read_token_file(path)
    if fits_table(line):
        return read_table(path)
    raise _unknown(f"{path}: its first line {line[:60]!r} is of no known format")


def _unknown(found: str) -> InputError:
    return InputError(f"{found}; known are {'; '.join(FORMATS)}")

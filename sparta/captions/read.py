"""Captions of photos and videos, in the files of any format people have.

Whatever is malformed raises InputError, which names the file, the line or position, and the field.
"""

from __future__ import annotations

import csv
import json
import logging
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import AliasChoices, ConfigDict, Field, TypeAdapter

from sparta.captions.record import (
    SPLIT,
    CaptionedPhoto,
    CaptionLine,
    by_photo,
    captioned,
    load_json,
    validate,
)
from sparta.errors import InputError
from sparta.json_values import JsonValue
from sparta.readers.base import Strict, parse, read_lines
from sparta.readers.splits import HGR_SPLITS, PrecompSplit, read_names, rows_of_images, splits_of

__all__ = ["CaptionedPhoto", "read_captions"]

log = logging.getLogger(__name__)


# ---- captions.jsonl ------------------------------------------------------------------------------


class _Object(Strict):
    image: str = Field(min_length=1, validation_alias=AliasChoices("image", "id"))
    split: str = SPLIT
    captions: list[str]


def _objects(path: Path) -> Iterator[tuple[str, CaptionedPhoto]]:
    """Read one object a line: image (or id), split ("train" if absent), captions."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        try:
            content = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{where}: not a JSON object: {error}") from error
        parsed = validate(_Object, content, where)
        yield where, CaptionedPhoto(parsed.image, parsed.split, tuple(parsed.captions))


# ---- JSON of COCO: `captions_train2014.json` and its like ----------------------------------------


class _CocoImage(Strict):
    id: int | str
    file_name: str = Field(min_length=1)


class _CocoAnnotation(Strict):
    model_config = ConfigDict(frozen=True)
    id: int | str | None = None
    image_id: int | str
    caption: str


class _CocoFile(Strict):
    images: list[_CocoImage] = Field(min_length=1)
    annotations: list[_CocoAnnotation]


def read_coco_captions(content: JsonValue, path: Path) -> list[CaptionedPhoto]:
    """Photos with all their captions, all of one split.

    Photos without captions and captions of photos that the file does not list are left out, and
    counted by a warning. An annotation that is there twice, with its id, counts once. The file's
    name tells the split: "val" for `captions_val2014.json`, "train" where it has none.
    """
    file = validate(_CocoFile, content, str(path))
    named = re.match(r"captions_([a-z]+)\d", path.name)
    split = named[1] if named else "train"
    names: dict[int | str, str] = {}
    for number, image in enumerate(file.images):
        if names.setdefault(image.id, image.file_name) != image.file_name:
            raise InputError(f"{path}: images.{number}: id: {image.id} is also {names[image.id]}")
    captions: dict[int | str, list[str]] = {image_id: [] for image_id in names}
    seen: set[_CocoAnnotation] = set()
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


# ---- JSON of Karpathy: `dataset_coco.json`, `dataset_flickr30k.json` -----------------------------


class _Sentence(Strict):
    raw: str


class _KarpathyImage(Strict):
    filename: str = Field(min_length=1)
    filepath: str = ""
    split: str = Field(min_length=1)
    sentences: list[_Sentence]


class _KarpathyFile(Strict):
    images: list[_KarpathyImage] = Field(min_length=1)


def read_karpathy(
    content: JsonValue, path: Path, *, restval_apart: bool = False
) -> list[CaptionedPhoto]:
    """Photos with all their captions, and the splits of Karpathy and Fei-Fei (2015).

    "restval" joins "train", which then has 113,287 photos of COCO, unless it is kept apart.
    """
    file = validate(_KarpathyFile, content, str(path))
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


# ---- token files of Flickr8k and Flickr30k, such as `Flickr8k.token.txt` -------------------------


TOKEN_LINE = re.compile(r"(?P<image>[^\t]+)#(?P<number>\d+)\t(?P<text>.*)", re.DOTALL)


def _token_lines(path: Path) -> Iterator[CaptionLine]:
    """Read lines of `image.jpg#0`, tab, caption."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        found = TOKEN_LINE.fullmatch(line)
        if found is None:
            raise InputError(f"{where}: expected image#number, a tab and a caption")
        yield CaptionLine(where, found["image"].strip(), found["number"], found["text"])


# ---- tables of Kaggle's Flickr8k and Flickr30k: `captions.txt`, `results.csv` --------------------


IMAGE = {"image", "image_name"}
NUMBER = {"comment_number", "caption_number"}
CAPTION = {"caption", "comment"}
LAYOUTS = ([IMAGE, CAPTION], [IMAGE, NUMBER, CAPTION])
# A line of the published results.csv lacks the separator behind the number.
JOINED = re.compile(r"(\d+)\s+(.+)")


def _table_lines(path: Path) -> Iterator[CaptionLine]:
    """Read a table of image, caption number (in some files) and caption.

    Fields are quoted where a program for CSV wrote them; elsewhere the last column has all that
    follows, commas included.
    """
    header, *lines = read_lines(path)
    found = _columns(header)
    if found is None:
        raise InputError(f"{path}, line 1: expected the names of columns, such as image,caption")
    separator, columns = found
    for number, line in enumerate(lines, 2):
        where = f"{path}, line {number}"
        cells = [cell.strip() for cell in _cells(line, separator, columns, where)]
        if len(cells) == columns - 1 and (joined := JOINED.fullmatch(cells[-1])):
            cells[-1:] = joined.groups()
        if len(cells) != columns or (columns == 3 and not cells[1].isdigit()):
            raise InputError(f"{where}: expected {header.strip()}, found {line[:100]!r}")
        yield CaptionLine(where, cells[0], cells[1] if columns == 3 else "", cells[-1])


def _columns(header: str) -> tuple[str, int] | None:
    """The separator of a header's columns and their number, None if it is no such header."""
    for separator in "|,":
        names = [name.strip().lower() for name in header.split(separator)]
        for layout in LAYOUTS:
            if len(names) == len(layout) and all(map(set.__contains__, layout, names)):
                return separator, len(layout)
    return None


def _cells(line: str, separator: str, columns: int, where: str) -> list[str]:
    plain = line.split(separator, columns - 1)
    if separator == "|":  # these files have no quoting
        return plain
    try:
        quoted = next(csv.reader([line], strict=True), [])
    except csv.Error as error:  # a quotation mark within a field that begins with one
        if plain[-1].startswith('"') and plain[-1].count('"') % 2:
            raise InputError(
                f"{where}: caption: its quotation mark is not closed on this line"
            ) from error
        return plain
    return quoted if len(quoted) == columns else plain


# ---- `precomp` folders of VSE++, SCAN and their descendants --------------------------------------


def read_precomp(folder: Path, split: str | None = None) -> list[CaptionedPhoto]:
    """Photos of a split, or of all of them, with the ids of the feature store.

    The folder has `{split}_caps.txt` (one caption a line, those of a photo together) and
    `{split}_ids.txt` (one id for each photo or for each caption). "dev:1000" is the first 1,000
    photos of "dev". COCO's "test" is part of "testall": name one.
    """
    known = splits_of(folder)
    chosen = [PrecompSplit.parse(split)] if split else [PrecompSplit(name, None) for name in known]
    for one in chosen:
        if one.name not in known:
            raise InputError(f"{folder}: no split {one.name!r}; the folder has {known}")
    return captioned(folder, (found for one in chosen for found in _photos(folder, one)))


def _photos(folder: Path, split: PrecompSplit) -> list[tuple[str, CaptionedPhoto]]:
    path = folder / f"{split.name}_caps.txt"
    lines = read_lines(path)
    images = rows_of_images(folder, split, len(lines), path)
    return [
        (
            f"{path}, lines {own.start + 1} to {own.stop}",
            CaptionedPhoto(image_id, split.name, tuple(lines[own])),
        )
        for image_id, own in images.items()
    ]


# ---- folders of HGR: MSR-VTT, VATEX, TGIF, Youtube2Text ------------------------------------------


CAPTIONS = Path("annotation", "RET", "ref_captions.json")
CAPTIONS_BY_NAME = TypeAdapter(dict[str, list[str]])


def read_hgr(root: Path, split: str | None = None) -> list[CaptionedPhoto]:
    """Videos of a split, or of all of them, with all their captions.

    The folder has `annotation/RET/ref_captions.json` (name → captions) and
    `public_split/{split}_names.npy` of the splits "trn", "val" and "tst".
    """
    known = [name for name in HGR_SPLITS if (root / "public_split" / f"{name}_names.npy").exists()]
    if split not in (None, *known) or not known:
        raise InputError(f"{root}: no split {split!r}; public_split has names of {known}")
    path = root / CAPTIONS
    captions = parse(CAPTIONS_BY_NAME, load_json(path), str(path))
    return captioned(
        path,
        (
            (f"{path}: {video}", CaptionedPhoto(video, one, tuple(captions.get(video, ()))))
            for one in ([split] if split else known)
            for video in read_names(root, one)
        ),
    )


# ---- captions of any format ----------------------------------------------------------------------

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


def read_captions(
    path: str | Path, split: str | Sequence[str] | None = None
) -> list[CaptionedPhoto]:
    """Read all captions of a split; the path and its content tell the format, one of `FORMATS`.

    Blanks and invisible characters around a caption are removed. Photos without captions and
    captions that show nothing are left out, and counted by a warning.

    Args:
        path: file or folder.
        split: keep only photos of this split, or of these (None: all). Karpathy's "restval" is
            part of "train", unless it is named here.

    Raises:
        InputError: if the format is none of these, the content is malformed, or no photo has the
            split or any captions; the text names file, line or position, and field.
    """
    path = Path(path)
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
    line = _first_line(path)
    if path.suffix == ".jsonl" or line.lstrip().startswith("{"):
        return captioned(path, _objects(path))
    if TOKEN_LINE.fullmatch(line):
        return by_photo(path, _token_lines(path))
    if _columns(line):
        return by_photo(path, _table_lines(path))
    raise _unknown(f"{path}: its first line {line[:60]!r} is of no known format")


def is_captions(path: Path) -> bool:
    """Whether a folder, or a file by its name or first line, should be one of `FORMATS`.

    Raises OSError if the path cannot be read.
    """
    if path.is_dir() or path.suffix in (".json", ".jsonl"):
        return True
    line = _first_line(path)
    return bool(line.lstrip().startswith("{") or TOKEN_LINE.fullmatch(line) or _columns(line))


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(FIRST_BYTES).removeprefix(BOM_UTF8).partition(b"\n")[0]
    return start.decode(errors="replace").rstrip("\r")


def _unknown(found: str) -> InputError:
    return InputError(f"{found}; known are {'; '.join(FORMATS)}")

"""Crisscrossed Captions (CxC, arXiv 2004.15020) on disk: human judgements, and COCO's captions.

Captions are identified by COCO's sentence numbers, images by COCO's image numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from eval.recall.protocols import coco_number
from sparta.captions.json_file import load_json, validate
from sparta.errors import InputError

ORIGINAL = "c2i_original"
HIGHEST = 5.0


@dataclass(frozen=True)
class JudgedPair:
    """Two captions or images, and their similarity as judged by people.

    Attributes:
        first: number of a caption or image.
        second: likewise.
        score: 0 to 5, the mean over annotators.
        method: by which the pair was chosen.
    """

    first: int
    second: int
    score: float
    method: str


@dataclass(frozen=True)
class Judgements:
    """All pairs of a split's three files.

    Attributes:
        text_image: a caption and an image each; those of method "c2i_original" are COCO's own.
        text_text: two captions.
        image_image: two images; some pairs were judged in both orders.
    """

    text_image: list[JudgedPair]
    text_text: list[JudgedPair]
    image_image: list[JudgedPair]


def read_judgements(folder: Path, split: str) -> Judgements:
    """Read `sits_SPLIT.csv`, `sts_SPLIT.csv` and `sis_SPLIT.csv`.

    Raises:
        InputError: if a file is missing, or a line is not as published; the text names file, line
            and field.
    """
    return Judgements(
        list(_pairs(folder / f"sits_{split}.csv", ("caption", "image"))),
        list(_pairs(folder / f"sts_{split}.csv", ("caption1", "caption2"))),
        list(_pairs(folder / f"sis_{split}.csv", ("image1", "image2"))),
    )


def _pairs(path: Path, names: tuple[str, str]) -> Iterator[JudgedPair]:
    if not path.is_file():
        raise InputError(f"{path} is missing: give the folder of the CxC files")
    header = [*names, "agg_score", "sampling_method"]
    first, second = (_sentence if name.startswith("caption") else coco_number for name in names)
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        if (found := next(lines, [])) != header:
            raise InputError(f"{path}, line 1: columns {found}, expected {header}")
        for number, cells in enumerate(lines, 2):
            where = f"{path}, line {number}"
            if len(cells) != len(header):
                raise InputError(f"{where}: {len(cells)} columns, expected {len(header)}")
            yield JudgedPair(
                _number(cells[0], first, f"{where}: {names[0]}"),
                _number(cells[1], second, f"{where}: {names[1]}"),
                _score(cells[2], f"{where}: agg_score"),
                cells[3],
            )


def _sentence(name: str) -> int | None:
    digits = re.fullmatch(r"COCO_val2014:sentid:(\d+)", name)
    return int(digits[1]) if digits else None


def _number(name: str, parse: Callable[[str], int | None], where: str) -> int:
    if (number := parse(name)) is None:
        raise InputError(f"{where}: {name!r} does not end with COCO's number")
    return number


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= HIGHEST:
        raise InputError(f"{where}: {text!r} is no number from 0 to {HIGHEST:g}")
    return score


class _Sentence(BaseModel):
    sentid: int
    raw: str


class _Annotation(BaseModel):
    id: int
    caption: str


class _Image(BaseModel):
    sentences: list[_Sentence] = []


class _File(BaseModel):
    images: list[_Image] = Field(min_length=1)
    annotations: list[_Annotation] = []


def read_sentences(path: Path) -> dict[int, str]:
    """COCO's captions by number, from Karpathy's `dataset_coco.json` or `captions_val2014.json`.

    Raises:
        InputError: if the file is neither.
    """
    file = validate(_File, load_json(path), str(path))
    sentences = {one.sentid: one.raw for image in file.images for one in image.sentences}
    sentences |= {one.id: one.caption for one in file.annotations}
    if not sentences:
        raise InputError(f"{path}: no captions with numbers: give dataset_coco.json, or COCO's own")
    return sentences

"""Recall by human judgements: Crisscrossed Captions of COCO (CxC, arXiv 2004.15020).

The gallery is every judged item of a split: COCO's 5,000 validation or test images, and five
captions of each. As in the paper, a pair is positive with a score of at least 3 between two
captions or a caption and an image, and of at least 2.5 between two images:

- text → image: the caption's image, and images judged to fit it with at least 3.
- image → text: the same pairs, reversed.
- text → text: the other captions of the same image, and captions judged with at least 3.
- image → image: images judged with at least 2.5. Images without any are no queries.

COCO's pairs are positive whatever their score (38 of 25,000 are below 3 in the validation split),
so that every caption and every image is a query between the modes; so are captions of the same
image, as in the code published with GPO. Judgements are symmetric; of a pair judged in both orders
the higher score counts. An item is not in its own gallery.

Captions are identified by COCO's sentence numbers, images by COCO's image numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic import AliasChoices, BaseModel, Field
from rich.table import Table

from eval.recall.model import EvaluatedModel, scores_of
from eval.recall.photos import coco_number
from eval.recall.scores import after, dense_scores, mean_scores, recall_table
from sparta.captions.record import load_json, validate
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.metrics import Block, Recall, ranks_by_block, recall
from sparta.progress import Progress, no_progress

ORIGINAL = "c2i_original"
HIGHEST = 5.0
TEXT_THRESHOLD = 3.0
IMAGE_THRESHOLD = 2.5
TEXT_TO_IMAGE, IMAGE_TO_TEXT = "text → image", "image → text"
TEXT_TO_TEXT, IMAGE_TO_IMAGE = "text → text", "image → image"


# ---- the files -----------------------------------------------------------------------------------


class JudgedPair(NamedTuple):
    """Numbers of two captions or images, how similar people judged them, and how it was chosen."""

    first: int
    second: int
    score: float  # 0 to 5, the mean over annotators
    method: str


class Judgements(NamedTuple):
    """All pairs of a split's three files."""

    # A caption and an image each; those of method "c2i_original" are COCO's own.
    text_image: list[JudgedPair]
    text_text: list[JudgedPair]  # two captions
    image_image: list[JudgedPair]  # two images; some pairs were judged in both orders


def read_judgements(folder: Path, split: str) -> Judgements:
    """Read `sits_SPLIT.csv`, `sts_SPLIT.csv` and `sis_SPLIT.csv`."""
    return Judgements(
        list(_pairs(folder / f"sits_{split}.csv", ("caption", "image"))),
        list(_pairs(folder / f"sts_{split}.csv", ("caption1", "caption2"))),
        list(_pairs(folder / f"sis_{split}.csv", ("image1", "image2"))),
    )


def _pairs(path: Path, names: tuple[str, str]) -> Iterator[JudgedPair]:
    if not path.is_file():
        raise InputError(f"{path} is missing: give the folder of the CxC files")
    header = [*names, "agg_score", "sampling_method"]
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        if (found := next(lines, [])) != header:
            raise InputError(f"{path}, line 1: columns {found}, expected {header}")
        for number, cells in enumerate(lines, 2):
            where = f"{path}, line {number}"
            if len(cells) != len(header):
                raise InputError(f"{where}: {len(cells)} columns, expected {len(header)}")
            first, second = (
                _number(cell, name, f"{where}: {name}")
                for cell, name in zip(cells, names, strict=False)
            )
            yield JudgedPair(first, second, _score(cells[2], f"{where}: agg_score"), cells[3])


def _number(cell: str, column: str, where: str) -> int:
    """COCO's number of a caption or an image."""
    number = coco_number(cell)
    if column.startswith("caption"):
        digits = re.fullmatch(r"COCO_val2014:sentid:(\d+)", cell)
        number = int(digits[1]) if digits else None
    if number is None:
        raise InputError(f"{where}: {cell!r} does not end with COCO's number")
    return number


def _score(text: str, where: str) -> float:
    with suppress(ValueError):
        if 0 <= (score := float(text)) <= HIGHEST:
            return score
    raise InputError(f"{where}: {text!r} is no number from 0 to {HIGHEST:g}")


class _Caption(BaseModel):
    number: int = Field(validation_alias=AliasChoices("sentid", "id"))  # Karpathy's, COCO's
    text: str = Field(validation_alias=AliasChoices("raw", "caption"))


class _Image(BaseModel):
    sentences: list[_Caption] = []


class _File(BaseModel):
    images: list[_Image] = Field(min_length=1)
    annotations: list[_Caption] = []


def read_sentences(path: Path) -> dict[int, str]:
    """COCO's captions by number, from Karpathy's `dataset_coco.json` or `captions_val2014.json`."""
    file = validate(_File, load_json(path), str(path))
    captions = [*(one for image in file.images for one in image.sentences), *file.annotations]
    if not captions:
        raise InputError(f"{path}: no captions with numbers: give dataset_coco.json, or COCO's own")
    return {one.number: one.text for one in captions}


# ---- what is right -------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelevantItems:
    """The gallery, and the relevant items of each query."""

    captions: list[int]  # COCO's numbers, in the order of the file
    images: list[int]  # likewise
    # Direction → for each query the positions of its relevant items, rising.
    ways: dict[str, list[list[int]]]


def without_images(judged: Judgements, missing: Set[int]) -> Judgements:
    """The judgements that concern neither some images nor COCO's captions of them."""
    own = (pair for pair in judged.text_image if pair.method == ORIGINAL)
    gone = {pair.first for pair in own if pair.second in missing}
    return Judgements(
        [one for one in judged.text_image if one.first not in gone and one.second not in missing],
        [one for one in judged.text_text if gone.isdisjoint((one.first, one.second))],
        [one for one in judged.image_image if missing.isdisjoint((one.first, one.second))],
    )


def relevant_items(judged: Judgements) -> RelevantItems:
    """Turn judgements into relevant items."""
    own: dict[int, int] = {}
    for pair in judged.text_image:
        if pair.method == ORIGINAL and own.setdefault(pair.first, pair.second) != pair.second:
            raise InputError(f"caption {pair.first} is of two images, {own[pair.first]} for one")
    captions, images = list(own), list(dict.fromkeys(own.values()))
    texts = {caption: place for place, caption in enumerate(captions)}
    photos = {image: place for place, image in enumerate(images)}
    originals = [(texts[caption], photos[image]) for caption, image in own.items()]
    of_image = _lists(((image, caption) for caption, image in originals), len(images))
    siblings = ((one, other) for same in of_image for one in same for other in same if one != other)
    fits = list(_positive(judged.text_image, texts, photos, TEXT_THRESHOLD))
    alike = list(_positive(judged.text_text, texts, texts, TEXT_THRESHOLD))
    similar = list(_positive(judged.image_image, photos, photos, IMAGE_THRESHOLD))
    between = [*originals, *fits]
    ways = {
        TEXT_TO_IMAGE: _lists(between, len(captions)),
        IMAGE_TO_TEXT: _lists(_turned(between), len(images)),
        TEXT_TO_TEXT: _lists([*siblings, *alike, *_turned(alike)], len(captions)),
        IMAGE_TO_IMAGE: _lists([*similar, *_turned(similar)], len(images)),
    }
    return RelevantItems(captions, images, ways)


def _positive(
    pairs: Sequence[JudgedPair], first: dict[int, int], second: dict[int, int], threshold: float
) -> Iterable[tuple[int, int]]:
    for pair in pairs:
        if pair.first not in first or pair.second not in second:
            raise InputError(
                f"the pair {pair.first}, {pair.second} ({pair.method}) is judged, but one of them "
                f"has no {ORIGINAL} pair: the files are not of one split"
            )
        if pair.score >= threshold:
            yield first[pair.first], second[pair.second]


def _turned(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(second, first) for first, second in pairs]


def _lists(pairs: Iterable[tuple[int, int]], queries: int) -> list[list[int]]:
    found: list[set[int]] = [set() for _ in range(queries)]
    for query, item in pairs:
        found[query].add(item)
    return [*map(sorted, found)]


# ---- recall --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CxcRecall:
    """Recall of a model or an ensemble."""

    seed: ClassVar[None] = None  # nothing is drawn at random
    members: Sequence[EvaluatedModel]  # several form an ensemble
    images: int
    captions: int
    ways: dict[str, tuple[int, Recall]]  # direction → queries, recall; if sparse, the first two
    missing: int  # images left out, with their captions

    def record(self) -> Json:
        """The figures as JSON values."""
        ways = {
            name.replace(" → ", "_to_"): {"queries": queries, **found._asdict()}
            for name, (queries, found) in self.ways.items()
        }
        members = [member.record() for member in self.members]
        figures = {"images": self.images, "captions": self.captions, "missing": self.missing}
        return {**figures, **ways, "members": members}

    def table(self) -> Table:
        """The figures as a table."""
        title = f"CxC: {self.images:,} images, {self.captions:,} captions"
        ways = {f"{name}, {count:,} queries": found for name, (count, found) in self.ways.items()}
        total = self.images + self.missing
        missing = f"{self.missing:,} of {total:,} images are missing"
        lines = [f"Not comparable with figures of CxC: {missing}"] if self.missing else []
        return recall_table(title, ways, lines)


def measure_cxc(
    members: Sequence[EvaluatedModel],
    judged: Judgements,
    sentences: dict[int, str],
    batch_size: int,
    progress: Progress = no_progress,
    missing: Set[int] = frozenset(),
) -> CxcRecall:
    """Measure a model, or an ensemble by the mean of its members' scores.

    Reports progress of the stages "texts", "images" and "rank".
    """
    right = relevant_items(without_images(judged, missing))
    if lost := [caption for caption in right.captions if caption not in sentences]:
        raise InputError(f"--captions lacks {len(lost)} captions, number {lost[0]} for one")
    texts = [sentences[caption] for caption in right.captions]
    scores = scores_of(members, texts, [[*map(str, right.images)]], batch_size, progress)
    mean = mean_scores(scores)
    blocks: dict[str, Block] = {TEXT_TO_IMAGE: mean.rows, IMAGE_TO_TEXT: mean.columns}
    vectors = [one.vectors for one in scores if one.vectors]
    if len(vectors) == len(scores):
        texts_of, images_of = zip(*vectors, strict=True)
        blocks[TEXT_TO_TEXT] = mean_scores([dense_scores(one, one) for one in texts_of]).rows
        blocks[IMAGE_TO_IMAGE] = mean_scores([dense_scores(one, one) for one in images_of]).rows
    asked = {name: right.ways[name] for name in blocks if any(right.ways[name])}
    total, done, ways = sum(map(len, asked.values())), 0, {}
    for name, answers in asked.items():
        ranks = ranks_by_block(
            blocks[name],
            len(right.captions if name in (IMAGE_TO_TEXT, TEXT_TO_TEXT) else right.images),
            answers,
            ties="pessimistic",
            without_self=name in (TEXT_TO_TEXT, IMAGE_TO_IMAGE),
            progress=after(done, total, progress),
        )
        answered = ranks[[bool(items) for items in answers]]
        ways[name] = len(answered), recall(answered)
        done += len(answers)
    return CxcRecall(members, len(right.images), len(texts), ways, len(missing))

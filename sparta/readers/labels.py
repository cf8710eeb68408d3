"""What a detector took regions for: numbered classes, or objects in JSON that are to be matched."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    FiniteFloat,
    TypeAdapter,
    model_validator,
)

from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.readers.base import (
    TOLERANCE,
    ImportOptions,
    RegionLimit,
    Strict,
    read_lines,
    relative_boxes,
)

T = TypeVar("T")
# Above it an attribute is shown in the demonstrations of bottom-up-attention and its descendants.
CLASS_ATTRIBUTE_CONFIDENCE = 0.1
# scene_graph_benchmark's own demonstration shows attributes above it. Its predictor sets those
# below its threshold to 0 and then writes 16, whatever they score.
ATTRIBUTE_CONFIDENCE = 0.01
OVERLAP = 0.5  # intersection over union above which two boxes show the same thing
READ = 50  # regions Oscar and VisualSparta read of an image
UNMATCHED = -1
Pixels = Annotated[int, Field(gt=0, lt=2**31)]
Rect = Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)]
log = logging.getLogger(__name__)


# ---- numbered classes, of bottom-up attention's family -------------------------------------------


class Classes(NamedTuple):
    """The most probable object and attribute of n regions."""

    objects_id: NDArray[np.number]  # [n] of any integer type
    objects_conf: NDArray[np.number]  # [n] of any float type, 0 to 1
    # [n] of any integer type; None from a detector without attributes
    attrs_id: NDArray[np.number] | None = None
    attrs_conf: NDArray[np.number] | None = None  # [n] of any float type, 0 to 1


class Classifier:
    """Chooses an image's regions and gives them the words of their classes.

    The words are in `objects_vocab.txt` and `attributes_vocab.txt` of a folder, one class a line.
    Class 0 is the first line; background has none. A line may hold synonyms, separated by commas
    ("gray,grey"); the first of them is used. `files` are the two, or none.
    """

    def __init__(self, options: ImportOptions) -> None:
        self._limit, folder = options.limit, options.vocabulary
        names = ("objects_vocab.txt", "attributes_vocab.txt")
        self.files = [] if folder is None else [folder / name for name in names]
        self._words = [_read_words(path) for path in self.files]
        # Whether it needs classes.
        self.needed = folder is not None or self._limit.by == "confident"

    def label(self, image: ImageFeatures, classes: Classes | None, where: str) -> ImageFeatures:
        """The chosen regions of an image without words.

        Detectors give the most probable attribute, however improbable; those without attributes
        write class 0 with confidence 0. An attribute is "" where the confidence is too low.
        """
        if classes is None:
            return image.take(self._limit.rows(len(image.features), None, where))
        for name in ("objects_conf", "attrs_conf"):
            if (values := getattr(classes, name)) is not None:
                for row in np.flatnonzero(~((values >= 0) & (values <= 1 + TOLERANCE)))[:1]:
                    found = f"expected 0 to 1, found {values[row]}"
                    raise InputError(f"{where}: {name}, row {row + 1}: {found}")
        if self._words:
            labels = self._look_up(0, classes.objects_id, f"{where}: objects_id")
            attributes = [""] * len(labels)
            if classes.attrs_id is not None and classes.attrs_conf is not None:
                words = self._look_up(1, classes.attrs_id, f"{where}: attrs_id")
                above = self._limit.attributes_above(CLASS_ATTRIBUTE_CONFIDENCE)
                attributes = np.where(classes.attrs_conf > above, words, "").tolist()
            image = replace(image, labels=tuple(labels), attributes=tuple(attributes))
        return image.take(self._limit.rows(len(image.features), classes.objects_conf, where))

    def _look_up(self, file: int, classes: NDArray[np.number], where: str) -> list[str]:
        known = self._words[file]
        for row in np.flatnonzero((classes < 0) | (classes >= len(known)))[:1]:
            raise InputError(
                f"{where}, row {row + 1}: expected 0 to {len(known) - 1}, the lines of "
                f"{self.files[file]} counted from 0, found {classes[row]}"
            )
        return [known[number] for number in classes]


def _read_words(path: Path) -> list[str]:
    words = [line.split(",")[0].strip() for line in read_lines(path)]
    if not words:
        raise InputError(f"{path} is empty")
    if "" in words:
        raise InputError(f"{path}, line {words.index('') + 1}: the word is blank")
    return words


# ---- objects in JSON, of Oscar's family ----------------------------------------------------------


class DetectedObject(Strict):
    """One object, its rect x1, y1, x2, y2 in pixels; further fields are ignored."""

    label: str = Field(alias="class")
    attributes: list[str] = Field(default_factory=list)
    attr_scores: list[FiniteFloat] | None = None
    rect: Rect | None = None
    conf: FiniteFloat | None = None

    @model_validator(mode="after")
    def _one_score_each(self) -> Self:
        if self.attr_scores is not None and len(self.attr_scores) != len(self.attributes):
            raise ValueError(
                f"attr_scores: expected {len(self.attributes)}, one for each of attributes, found "
                f"{len(self.attr_scores)}"
            )
        return self

    def words(self, above: float) -> str:
        """Its attributes above a confidence, the highest first; all where none is known."""
        if self.attr_scores is None:
            return " ".join(self.attributes)
        scored = zip(self.attributes, self.attr_scores, strict=True)
        ranked = sorted(scored, key=lambda pair: -pair[1])
        return " ".join(word for word, score in ranked if score > above)


class Prediction(Strict):
    """The objects of a photo, and its size in pixels."""

    image_h: Pixels
    image_w: Pixels
    objects: list[DetectedObject]


@dataclass(frozen=True)
class LabelledObjects:
    """Labels and boxes of m objects of a photo."""

    labels: tuple[str, ...] = ()  # m strings
    attributes: tuple[str, ...] = ()  # m strings
    # [m, 4] float32, relative to width and height; None where unknown
    boxes: NDArray[np.float32] | None = None
    confidences: NDArray[np.float64] | None = None  # [m] float64; None where unknown
    width: int = 0  # of the photo in pixels, 0 where unknown
    height: int = 0  # of the photo in pixels, 0 where unknown

    @classmethod
    def of(
        cls,
        objects: Sequence[DetectedObject],
        width: int,
        height: int,
        where: str,
        above: float = ATTRIBUTE_CONFIDENCE,
    ) -> LabelledObjects:
        """Objects of a photo, whose width and height are 0 where unknown."""
        rects = [found.rect for found in objects if found.rect is not None]
        scores = [found.conf for found in objects if found.conf is not None]
        boxes = None
        if width and height and len(rects) == len(objects):
            pixels = np.array(rects, np.float64).reshape(-1, 4)
            boxes = relative_boxes(pixels, width, height, f"{where}: objects.rect")
        return cls(
            tuple(found.label for found in objects),
            tuple(found.words(above) for found in objects),
            boxes,
            np.array(scores, np.float64) if len(scores) == len(objects) else None,
            width,
            height,
        )


OBJECTS = TypeAdapter(list[DetectedObject])


def overlaps(boxes: NDArray[np.number], others: NDArray[np.number]) -> NDArray[np.float32]:
    """[n, m] intersection over union of [n, 4] and [m, 4] boxes; 0 where both are points."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = (high - low).clip(0).prod(axis=2)
    union = _areas(boxes)[:, None] + _areas(others)[None] - shared
    overlaps: NDArray[np.float32] = np.divide(
        shared, union, out=np.zeros_like(shared), where=union > 0
    )
    return overlaps


def match(regions: NDArray[np.float32], seen: LabelledObjects) -> NDArray[np.int64]:
    """The region of each object.

    Files have one object for each region, in the same order, or come of two detectors (or of two
    thresholds of one). In the latter case an object belongs to the region that its box overlaps
    most, by more than a half. Objects without boxes are those of the regions if there are as many.

    Returns [m] rows of regions, of boxes [n, 4]; -1 for an object that belongs to none.
    """
    n, m = len(regions), len(seen.labels)
    if seen.boxes is None:
        return np.arange(n) if m == n else np.full(m, UNMATCHED)
    shared = overlaps(seen.boxes, regions)
    if m == n:
        equal = (np.abs(seen.boxes - regions) <= TOLERANCE).all(axis=1)
        if (equal | (shared.diagonal() > OVERLAP)).all():
            return np.arange(n)
    return np.where(shared.max(axis=1) > OVERLAP, shared.argmax(axis=1), UNMATCHED)


class WordPlacer:
    """Gives an image's regions the words of the objects seen in it.

    Labels of an object that belongs to no region describe the photo. They go to the largest
    region, whose box comes nearest to it; regions after the first 50 are left out there, as models
    read no further. The first such image is logged.
    """

    def __init__(self, limit: RegionLimit) -> None:
        self._choice = limit
        self._warned = False

    def place(self, image: ImageFeatures, seen: LabelledObjects, where: str) -> ImageFeatures:
        """The chosen regions with their words."""
        owners, n = match(image.boxes, seen), len(image.boxes)
        paired = np.array_equal(owners, np.arange(n))
        rows = self._choice.rows(n, seen.confidences if paired else None, where)
        lost = np.flatnonzero(owners == UNMATCHED)
        if len(lost):
            if not self._warned:
                self._warned = True
                log.warning(
                    "%s: %d of %d labels belong to no region; they go to the largest, here and "
                    "in any further such image",
                    image.image_id,
                    len(lost),
                    len(owners),
                )
            first = rows[:READ]
            owners[lost] = first[_areas(image.boxes[first]).argmax()]
        labels = _joined(seen.labels, owners, n)
        attributes = _joined(seen.attributes, owners, n)
        return replace(image, labels=labels, attributes=attributes).take(rows)


def _areas(boxes: NDArray[np.number]) -> NDArray[np.number]:
    areas: NDArray[np.number] = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return areas


def _joined(words: tuple[str, ...], owners: NDArray[np.int64], n: int) -> tuple[str, ...]:
    """The words of each of n regions, in order of the objects."""
    found: list[list[str]] = [[] for _ in range(n)]
    for word, owner in zip(words, owners.tolist(), strict=True):
        if word:
            found[owner].append(word)
    return tuple(" ".join(row) for row in found)

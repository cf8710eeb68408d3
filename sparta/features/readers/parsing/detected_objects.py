"""Detections as JSON objects with class, confidence, box and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from sparta.errors import InputError
from sparta.features.readers.parsing.validation import relative_boxes

T = TypeVar("T")
# scene_graph_benchmark's own demonstration shows attributes above it. Its predictor sets those
# below its threshold to 0 and then writes 16, whatever they score.
ATTRIBUTE_CONFIDENCE = 0.01
Pixels = Annotated[int, Field(gt=0, lt=2**31)]
Rect = Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)]


class DetectedObject(BaseModel):
    """One object; further fields are ignored.

    Attributes:
        label: its class.
        attributes: words for how it looks.
        attr_scores: their confidences, if known.
        rect: x1, y1, x2, y2 in pixels, if known.
        conf: the confidence, if known.
    """

    model_config = ConfigDict(strict=True)
    label: str = Field(alias="class")
    attributes: list[str] = []
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


class Prediction(BaseModel):
    """The objects of a photo, and its size in pixels."""

    model_config = ConfigDict(strict=True)
    image_h: Pixels
    image_w: Pixels
    objects: list[DetectedObject]


@dataclass(frozen=True)
class LabelledObjects:
    """Labels and boxes of m objects of a photo.

    Attributes:
        labels: m strings.
        attributes: m strings.
        boxes: [m, 4] float32, relative to width and height; None where unknown.
        confidences: [m] float64; None where unknown.
        width: of the photo in pixels, 0 where unknown.
        height: of the photo in pixels, 0 where unknown.
    """

    labels: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    boxes: NDArray[np.float32] | None = None
    confidences: NDArray[np.float64] | None = None
    width: int = 0
    height: int = 0

    @classmethod
    def of(
        cls,
        objects: Sequence[DetectedObject],
        width: int,
        height: int,
        where: str,
        above: float = ATTRIBUTE_CONFIDENCE,
    ) -> LabelledObjects:
        """Objects of a photo.

        Args:
            objects: the objects.
            width: of the photo in pixels, 0 where unknown.
            height: of the photo in pixels, 0 where unknown.
            where: file and line, for messages.
            above: the confidence above which attributes are used, where it is known.

        Raises:
            InputError: if a box lies outside the photo, or boxes are relative.
        """
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


def parse(adapter: TypeAdapter[T], text: bytes, where: str) -> T:
    """Read a cell of JSON.

    Args:
        adapter: for the form it must have.
        text: the JSON.
        where: file and line, for messages.

    Raises:
        InputError: naming the field, if it has another form.
    """
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise _named(error, where, "JSON") from error


def check_objects(found: Any, where: str) -> list[DetectedObject]:
    """Objects as lists and dictionaries hold them.

    Raises:
        InputError: naming the field, if they have another form.
    """
    try:
        return OBJECTS.validate_python(found)
    except ValidationError as error:
        raise _named(error, where, "objects") from error


def _named(error: ValidationError, where: str, whole: str) -> InputError:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or whole
    return InputError(f"{where}: {field}: {first['msg']}")

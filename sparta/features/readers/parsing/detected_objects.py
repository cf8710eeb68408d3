"""Detections as JSON objects with class, confidence, box and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from sparta.errors import InputError
from sparta.features.readers.parsing.validation import relative_boxes

T = TypeVar("T")
Pixels = Annotated[int, Field(gt=0, lt=2**31)]
Rect = Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)]


class DetectedObject(BaseModel):
    """One object; further fields are ignored.

    Attributes:
        label: its class.
        attributes: words for how it looks.
        rect: x1, y1, x2, y2 in pixels, if known.
        conf: the confidence, if known.
    """

    model_config = ConfigDict(strict=True)
    label: str = Field(alias="class")
    attributes: list[str] = []
    rect: Rect | None = None
    conf: FiniteFloat | None = None


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
        cls, objects: Sequence[DetectedObject], width: int, height: int, where: str
    ) -> LabelledObjects:
        """Objects of a photo.

        Args:
            objects: the objects.
            width: of the photo in pixels, 0 where unknown.
            height: of the photo in pixels, 0 where unknown.
            where: file and line, for messages.

        Raises:
            InputError: if a box lies outside the photo.
        """
        rects = [found.rect for found in objects if found.rect is not None]
        scores = [found.conf for found in objects if found.conf is not None]
        boxes = None
        if width and height and len(rects) == len(objects):
            pixels = np.array(rects, np.float64).reshape(-1, 4)
            boxes = relative_boxes(pixels, width, height, f"{where}: objects.rect")
        return cls(
            tuple(found.label for found in objects),
            tuple(" ".join(found.attributes) for found in objects),
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

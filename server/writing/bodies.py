"""What a request to write says: its body as JSON, line by line where there are many."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    FailFast,
    Field,
    TypeAdapter,
    WrapValidator,
    field_validator,
    model_validator,
)

from indexer.metadata import RESERVED
from server.requests import Named, in_parts
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.json_values import Json

Refresh = Literal["wait", "none"]
Fields = Annotated[
    Json,
    Field(description="Metadata, by field", examples=[{"taken": "2024-06-01", "tags": ["beach"]}]),
]
Texts = Annotated[list[str], FailFast()]
Vector = Annotated[list[float], FailFast()]
Box = tuple[float, float, float, float]


class FeaturesBody(Named, BaseModel):
    """Features of an image, as models take them."""

    features: Annotated[list[Vector], FailFast()] = Field(
        description="A vector a region", min_length=1
    )
    boxes: Annotated[list[Box], FailFast()] = Field(
        description="x1, y1, x2, y2 of each region, relative to the photo's width and height"
    )
    labels: Texts = Field(default=[], description="Of each region; empty for none")
    attributes: Texts = Field(default=[], description="Of each region; empty for none")
    width: int = Field(gt=0, description="Of the photo in pixels")
    height: int = Field(gt=0, description="Of the photo in pixels")

    def record(self, image_id: str) -> ImageFeatures:
        """As extraction gives them.

        Raises:
            InputError: if the parts do not fit.
        """
        count = len(self.features)
        try:
            with np.errstate(over="ignore"):
                features = np.array(self.features, np.float16)
            if not np.isfinite(features).all():
                raise InputError("features: give finite numbers up to 65,504, which float16 holds")
            return ImageFeatures(
                image_id,
                features,
                np.array(self.boxes, np.float32).reshape(-1, 4),
                tuple(self.labels) or ("",) * count,
                tuple(self.attributes) or ("",) * count,
                self.width,
                self.height,
            )
        except ValueError as error:
            raise InputError(f"features: {error}") from error


class Image(Named, BaseModel):
    """An image in one of three forms, with its metadata."""

    photo: Base64Bytes | None = Field(default=None, description="The file, in base64")
    features: FeaturesBody | None = None
    terms: Annotated[dict[str, float], WrapValidator(in_parts)] | None = Field(
        default=None,
        description="Term → its score above the term's offset; all are kept",
        examples=[{"dog": 2.25, "beach": 1.5}],
    )
    metadata: Fields = {}

    @field_validator("metadata")
    @classmethod
    def _check_metadata(cls, metadata: Json) -> Json:
        return check_fields(metadata)

    @property
    def forms(self) -> int:
        """How many forms of the image there are."""
        return sum(part is not None for part in (self.photo, self.features, self.terms))


class ImageBody(Image):
    """An image to add, or to put in the place of the one with its id."""

    @model_validator(mode="after")
    def _check(self) -> ImageBody:
        if self.forms != 1:
            raise ValueError("give one of photo, features and terms")
        return self


class BatchLine(Image):
    """A line of a batch: an image, metadata of one that is there, or one to delete."""

    image_id: str
    delete: Literal[True] | None = None

    @model_validator(mode="after")
    def _check(self) -> BatchLine:
        changes = {"photo", "features", "terms", "metadata", "delete"} & self.model_fields_set
        if not changes or self.forms > 1 or (self.delete and len(changes) > 1):
            raise ValueError("give one of photo, features, terms, metadata and delete")
        return self


def check_fields(metadata: Json) -> Json:
    """Metadata as it is.

    Raises:
        ValueError: if it has a field that nobody else may write.
    """
    for name in RESERVED:
        if name in metadata:
            raise ValueError(f"{name} is the photo's; rename the field")
    return metadata


class DeleteBody(Named, BaseModel):
    """The images to delete: by their ids, each once, or those that a filter lets through."""

    ids: list[str] | None = Field(default=None, fail_fast=True, examples=[["beach/two dogs.jpg"]])
    filter: str | Json | None = Field(
        default=None, description="As of a search", examples=["folder:drafts"]
    )

    @model_validator(mode="after")
    def _check(self) -> DeleteBody:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give ids or a filter")
        if self.ids is not None:
            self.ids = list(dict.fromkeys(self.ids))
        return self


IDS: TypeAdapter[list[str]] = TypeAdapter(Texts)
FIELDS: TypeAdapter[Json] = TypeAdapter(Annotated[Json, AfterValidator(check_fields)])
IMAGE, LINE, DELETE = TypeAdapter(ImageBody), TypeAdapter(BatchLine), TypeAdapter(DeleteBody)

"""Fields that every image has, and those that are made of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PATH, FOLDER, CAMERA, LOCATION = "path", "folder", "camera", "location"


def with_derived(image_id: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an image: its metadata, and what follows from it and from the id.

    Metadata comes first where it has a field of the same name:

    - `path`, the image's id, and `folder`, the part of it before the last slash;
    - `camera`, make and model, or the model alone where it begins with the make;
    - `location`, the point of `latitude` and `longitude`.
    """
    derived: dict[str, Any] = {PATH: image_id, FOLDER: image_id.rpartition("/")[0] or None}
    derived[CAMERA] = _camera(metadata.get("make"), metadata.get("model"))
    latitude, longitude = metadata.get("latitude"), metadata.get("longitude")
    if latitude is not None and longitude is not None:
        derived[LOCATION] = {"lat": latitude, "lon": longitude}
    return derived | dict(metadata)


def _camera(make: Any, model: Any) -> str | None:
    names = [name for name in (make, model) if isinstance(name, str) and name]
    if len(names) == 2 and names[1].casefold().startswith(names[0].casefold()):
        return names[1]
    return " ".join(names) or None

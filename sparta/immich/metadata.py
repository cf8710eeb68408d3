"""What is stored about a photo: the fields of an immich asset that say something about it."""

from __future__ import annotations

from typing import Any

from sparta.immich.library import Asset

# Field of ours → immich's, in the asset's EXIF data.
_EXIF = {
    "description": "description",
    "city": "city",
    "state": "state",
    "country": "country",
    "latitude": "latitude",
    "longitude": "longitude",
    "make": "make",
    "model": "model",
    "rating": "rating",
    "lensModel": "lensModel",
    "iso": "iso",
    "fNumber": "fNumber",
    "focalLength": "focalLength",
    "orientation": "orientation",
    "bytes": "fileSizeInByte",
}


def metadata(asset: Asset, address: str) -> dict[str, Any]:
    """What is stored about a photo; fields without a value are left out.

    Args:
        asset: of the photo.
        address: of the immich server.

    Returns:
        the asset's id, the address of its page, name, local time, and where present place, camera,
        description, rating, people, tags and whether it is a favourite.
    """
    fields = asset.fields
    exif = fields.get("exifInfo") or {}
    found: dict[str, Any] = {
        "immich_id": asset.id,
        "page": f"{address}/photos/{asset.id}",
        "name": fields.get("originalFileName"),
        "taken": fields.get("localDateTime"),
        "favourite": fields.get("isFavorite") or None,
        "people": [person["name"] for person in fields.get("people") or [] if person["name"]],
        "tags": [tag["name"] for tag in fields.get("tags") or []],
    }
    found |= {ours: exif.get(theirs) for ours, theirs in _EXIF.items()}
    return {name: value for name, value in found.items() if value not in (None, "", [])}
